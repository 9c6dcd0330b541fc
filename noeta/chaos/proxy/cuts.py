"""The cuts that are ordered and have not struck: whose commit, which verb, the so-manieth time. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import msgspec

from noeta.chaos.schedule import ANY_COMMIT, SENT, AtPoint, Fault, Kind

_PROCESS: Final = re.compile(r"(?:.*\s)?(?P<name>\S+)#(?P<incarnation>\d+)")


@dataclass(frozen=True, slots=True)
class Who:
    """The process at a connection's other end, as its ``application_name`` says; of no worker: incarnation 0."""

    name: str
    incarnation: int

    @classmethod
    def of(cls, application_name: str) -> Self:
        """``noeta w2#3``: the third process of w2."""
        found = _PROCESS.fullmatch(application_name)
        return cls(application_name, 0) if found is None else cls(found["name"], int(found["incarnation"]))

    def __str__(self) -> str:
        return f"{self.name}#{self.incarnation}" if self.incarnation else self.name


def name_of(process: str) -> str:
    """The ``application_name`` of a worker process, which the server shows, too."""
    return f"noeta {process}"


class Cut(msgspec.Struct, frozen=True):
    """At the ``n``-th commit of this verb from now on (``commit``: of any), cut the connection that it is on.

    ``worker`` None: whoever is first. A new process begins to count anew. ``incarnation`` and ``where``: which process,
    and which commits count (`schedule.AtPoint`).
    """

    id: str
    kind: Kind
    verb: str
    n: int = 1
    worker: str | None = None
    incarnation: int = 0
    where: Mapping[str, str] = {}

    @classmethod
    def of(cls, fault: Fault) -> Self:
        """The cut that a schedule's fault asks for."""
        anchor = fault.anchor
        assert isinstance(anchor, AtPoint), f"{fault.id}: a {fault.kind} stands at a point"
        verb = anchor.point.removesuffix(SENT)
        return cls(fault.id, fault.kind, verb, anchor.n, anchor.worker, anchor.incarnation, dict(anchor.where))

    def may_hit(self, who: Who) -> bool:
        """Whether it is for this process."""
        return self.worker in (None, who.name) and self.incarnation in (0, who.incarnation)

    def counts(self, who: Who, verb: str, facts: Mapping[str, str]) -> bool:
        """Whether this commit is one to count."""
        is_verb = self.verb in (verb, ANY_COMMIT)
        return is_verb and self.may_hit(who) and AtPoint(self.verb, self.n, where=self.where).counts(facts)


class Cuts:
    """The cuts that are armed."""

    def __init__(self) -> None:
        self._armed: dict[str, Cut] = {}
        self._passed: Counter[tuple[str, Who]] = Counter()

    def arm(self, cut: Cut) -> None:
        """From now on."""
        self._armed[cut.id] = cut

    def disarm_all(self) -> None:
        """Nothing strikes any more."""
        self._armed.clear()
        self._passed.clear()

    def may_hit(self, who: Who) -> bool:
        """Whether some cut is for this process."""
        return any(cut.may_hit(who) for cut in self._armed.values())

    def passing(self, who: Who, verb: str, facts: Mapping[str, str]) -> Cut | None:
        """Count a commit that is about to pass; the cut whose turn it is, which is armed no longer.

        Of two whose turn comes with the same commit the second waits for the next one.
        """
        due: Cut | None = None
        for cut in self._armed.values():
            if cut.counts(who, verb, facts):
                self._passed[cut.id, who] += 1
                if due is None and self._passed[cut.id, who] >= cut.n:
                    due = cut
        return None if due is None else self._armed.pop(due.id)
