"""How a scripted tool or model call kills its own worker.

Real workers die of SIGKILL, of which nothing can tidy up. The simulator hands in a ``die`` of its own that
cuts the simulated process; it must not return either.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import NoReturn

Die = Callable[[], object]


def kill_own_process() -> None:
    """SIGKILL to this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_for_certain(die: Die) -> NoReturn:
    """Die, or fail loud: a worker that survives its own death would make every foretelling wrong."""
    die()
    raise AssertionError("die() returned: this worker should be dead")
