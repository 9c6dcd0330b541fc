"""Every script of the exhaustive set, by name."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from noeta.chaos.sim.background_scripts import BACKGROUND_CASES
from noeta.chaos.sim.scripts import WORKING_CASES
from noeta.chaos.sim.waiting_scripts import WAITING_CASES

CASES: Final = MappingProxyType({**WORKING_CASES, **{case.name: case for case in (*WAITING_CASES, *BACKGROUND_CASES)}})
"""In the order in which the table shows them."""
