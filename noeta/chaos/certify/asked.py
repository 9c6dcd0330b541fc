"""What a person asked of `noeta certify`, and the command that asks for a part of it again."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from noeta.core.errors import BadInput

SUBJECTS: Final = {
    "factory": ("place", "clock"),
    "contract": (
        *(
            "birth",
            "fence",
            "claims",
            "leases",
            "kept",
            "inbox",
            "waiting",
            "races",
            "timers",
            "timeouts",
            "sweeps",
            "endings",
        ),
        *("cancel", "family", "results", "background", "orders", "closing", "contents", "reads", "transitions"),
        "bad_input",
    ),
    "model": ("answers", "situations"),
    "crash": ("kill", "freeze", "terminate", "replaced", "in_flight", "kill_client", "say"),
    "faults": ("unavailable", "unknown_landed", "unknown_lost", "unknown_later", "slow"),
    "traces": ("seeds",),
    "processes": (
        *("race", "one-writer", "epochs-rise", "gapless-log", "acked-stays", "taken-once", "terminal-is-final"),
        "row-agrees",
    ),
    "storm": ("laws",),
}
"""The lines of the card by part, in the order in which the parts run: cheap ones first, and what the next part stands
on before it. Subjects likewise: what breaks a rule that others stand on is told first."""

PARTS: Final = tuple(SUBJECTS)
SHARED_PARTS: Final = frozenset({"processes", "storm"})
"""They need a store that several processes can open."""

STORM_SECONDS: Final = 30.0
QUICK_STORM_SECONDS: Final = 12.0
STORM_SECONDS_MIN: Final = 5.0
STORM_SECONDS_MAX: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One certification. ``only``: parts, each with one subject or with all (None). ``storm_seconds`` 0: no storm."""

    store: str
    seed: int
    storm_seconds: float
    quick: bool = False
    only: tuple[tuple[str, str | None], ...] = ()
    stop_at_first: bool = False
    keep: bool = False
    json: Path | None = None
    junit: Path | None = None

    def wants(self, part: str) -> bool:
        """Whether this part runs at all."""
        return not self.only or any(part == name for name, _ in self.only)

    def order(self, part: str, root: str) -> Order:
        """What the process of this part is told."""
        subjects = [subject for name, subject in self.only if name == part]
        chosen = None if not subjects or None in subjects else tuple(one for one in subjects if one is not None)
        return Order(self.store, part, root, self.seed, self.quick, self.storm_seconds, chosen)

    @property
    def tells_stories(self) -> bool:
        """Whether single lines were asked for: then a failed one tells its story, too."""
        return bool(self.only) and all(subject is not None for _, subject in self.only)

    def command(self, part: str | None = None, subject: str | None = None) -> str:
        """What a person types to run this again, or one line of it."""
        words = ["noeta", "certify", self.store, "--seed", str(self.seed)]
        if self.quick:
            words.append("--quick")
        if self.storm_seconds != (QUICK_STORM_SECONDS if self.quick else STORM_SECONDS):
            words += ["--storm-seconds", f"{self.storm_seconds:g}"] if self.storm_seconds else ["--no-storm"]
        if part is None:
            only = [name if one is None else f"{name}:{one}" for name, one in self.only]
        else:
            only = [part if subject is None else f"{part}:{subject}"]
        for one in only:
            words += ["--only", one]
        return shlex.join(words)


class Order(msgspec.Struct, frozen=True):
    """What one part is told. ``root``: a directory of its own; ``subjects`` None: all there are."""

    store: str
    part: str
    root: str
    seed: int
    quick: bool
    storm_seconds: float
    subjects: tuple[str, ...] | None

    def wants(self, subject: str) -> bool:
        """Whether this line is asked for."""
        return self.subjects is None or subject in self.subjects


def only_of(text: str) -> tuple[str, str | None]:
    """What ``contract`` or ``contract:fence`` names.

    Raises:
        BadInput: no such part, or no such line of it.
    """
    part, colon, subject = text.partition(":")
    if part not in PARTS:
        raise BadInput("--only", f"expected PART or PART:SUBJECT with a part of {', '.join(PARTS)}, found {text!r}")
    if colon and subject not in SUBJECTS[part]:
        raise BadInput("--only", f"expected {part}:SUBJECT with one of {', '.join(SUBJECTS[part])}, found {text!r}")
    return part, subject or None
