"""One case of a law: a history, and what the law must say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from invariants import LAWS_BY_KEY, LawReport, Verdict, check_all
from tests.unit.invariants.history import H

VALID, INVALID, UNKNOWN = Verdict.VALID, Verdict.INVALID, Verdict.UNKNOWN


@dataclass(frozen=True, slots=True)
class Case:
    """``codes``: every anomaly code the law must yield, and no other."""

    law: str
    title: str
    history: str
    verdict: Verdict
    codes: frozenset[str] = frozenset()
    run: Mapping[str, Any] = field(default_factory=dict)

    def judge(self) -> LawReport:
        """What the law says of it."""
        (report,) = check_all(H(self.history, **self.run), [LAWS_BY_KEY[self.law]]).laws
        return report


def valid(law: str, title: str, history: str, **run: Any) -> Case:
    return Case(law, title, history, VALID, frozenset(), run)


def invalid(law: str, title: str, history: str, *codes: str, **run: Any) -> Case:
    return Case(law, title, history, INVALID, frozenset(codes), run)


def unknown(law: str, title: str, history: str, **run: Any) -> Case:
    return Case(law, title, history, UNKNOWN, frozenset(), run)
