"""The planted bugs: each as small as the line it removes, with the promise it breaks.

A bug of the store is planted in both stores, where both have the line: as replaced text in the migrations and as
replaced text in a method of the memory store. ``promise`` is the key that the bug breaks; ``laws`` are those that
may convict it besides, because they see the consequence (a checker answers by what it sees, not by what was done).
Old texts are compared with the code by `test_mutants.py`, so that no mutant silently rots.
"""

from __future__ import annotations

from typing import Final

from tests.mutants.above_sql import ABOVE_SQL
from tests.mutants.background_jobs import JOBS
from tests.mutants.delegating import DELEGATING
from tests.mutants.extra import EXTRA
from tests.mutants.gating import GATING
from tests.mutants.kept import KEPT
from tests.mutants.mutant import DETECTORS, Detector, Edit, Lines, Mutant, Quick, Swap
from tests.mutants.owning import OWNING
from tests.mutants.required import FOURTEEN
from tests.mutants.waiting import WAITING

MUTANTS: Final[tuple[Mutant, ...]] = (
    *FOURTEEN,
    *EXTRA,
    *ABOVE_SQL,
    *WAITING,
    *DELEGATING,
    *KEPT,
    *GATING,
    *JOBS,
    *OWNING,
)
BY_NAME: Final[dict[str, Mutant]] = {mutant.name: mutant for mutant in MUTANTS}

__all__ = ["BY_NAME", "DETECTORS", "MUTANTS", "Detector", "Edit", "Lines", "Mutant", "Quick", "Swap"]
