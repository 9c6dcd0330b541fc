"""What an examination finds, and what follows from it for the main jobs. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CHECK: Final = "make check"
CLUSTER: Final = "make cluster"
SIM: Final = "noeta sim"
JOBS: Final = (CHECK, CLUSTER, SIM)
NAME_WIDTH: Final = 22


class State(enum.Enum):
    OK = "ok"
    LIMITED = "limited"
    """It works, but less of it or more slowly than it should."""
    NOT_NEEDED = "not needed"
    """It is not there, and something else does its work, or nobody asked for it."""
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was tried, what came of it, and the command or setting that helps."""

    name: str
    state: State
    found: str
    help: str = ""
    needed_by: tuple[str, ...] = ()
    """The jobs that cannot run when this is missing."""

    def lines(self) -> list[str]:
        told = [f"{self.state.value:<11} {self.name:<{NAME_WIDTH}} {self.found}"]
        if self.help and self.state in (State.MISSING, State.LIMITED):
            told.append(f"{'':<11} {'':<{NAME_WIDTH}} help: {self.help}")
        return told

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "state": self.state.value,
            "found": self.found,
            "help": self.help,
            "needed_by": list(self.needed_by),
        }


@dataclass(frozen=True, slots=True)
class Examined:
    """All findings of one machine. ``jobs``: what it is asked for; the tests of noeta run in a clone of it alone."""

    findings: tuple[Finding, ...]
    jobs: tuple[str, ...] = JOBS

    def blockers(self) -> Mapping[str, list[Finding]]:
        """By job, what it needs and is missing."""
        missing = [one for one in self.findings if one.state is State.MISSING]
        return {job: [one for one in missing if job in one.needed_by] for job in self.jobs}

    def sentence(self) -> str:
        """What the machine can do; or what is missing first, and what helps."""
        blockers = self.blockers()
        ready = [job for job in self.jobs if not blockers[job]]
        said = f"ready: {', '.join(ready)}" if ready else "nothing is ready"
        for job in self.jobs:
            if blockers[job]:
                first = blockers[job][0]
                said += f"; {job} lacks {first.name}" + (f" ({first.help})" if first.help else "")
        return said

    @property
    def exit_code(self) -> int:
        return 1 if any(self.blockers().values()) else 0
