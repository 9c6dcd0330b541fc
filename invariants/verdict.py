"""Three verdicts and how they merge.

``unknown`` is not a kind of valid: it says that nothing was seen, or that the checker could not tell. A failure
outranks it, so that a crash beside a found anomaly never hides the anomaly.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """What a law, or a run, is judged to be."""

    VALID = "valid"
    UNKNOWN = "unknown"
    INVALID = "invalid"

    @property
    def exit_code(self) -> int:
        """What a command that judged exits with: 0 valid, 1 invalid, 2 unknown."""
        return {Verdict.VALID: 0, Verdict.INVALID: 1, Verdict.UNKNOWN: 2}[self]


_RANK = {Verdict.VALID: 0, Verdict.UNKNOWN: 1, Verdict.INVALID: 2}


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of them: invalid outranks unknown outranks valid. Of none at all: unknown."""
    return max(verdicts, key=_RANK.__getitem__, default=Verdict.UNKNOWN)


def decide(*, anomalies: int, seen: int, doubts: int, crashes: int) -> Verdict:
    """The verdict over one law: an anomaly is invalid; without one, nothing seen, a doubt or a crash is unknown."""
    if anomalies:
        return Verdict.INVALID
    if not seen or doubts or crashes:
        return Verdict.UNKNOWN
    return Verdict.VALID
