"""One task being drawn: its next calls, its sub-agents, and what a client will say to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from scripted_model.profile import Profile
from scripted_model.script import CHARS_MAX, Arguments, Asked, Call, Odd, Say, Script, Step, Tools, Turn, asking
from scripted_model.seeds import Stream
from scripted_model.workload import MessageKind

ORDINARY: Final = MappingProxyType({"plain": 4, "retry_safe": 3, "recoverable": 3})
"""The calls every task makes beside what it is about."""

SECONDS_MIN: Final = 0.001
"""Spans are whole milliseconds, and no wait is over before it begins."""


@dataclass(frozen=True, slots=True)
class Planned:
    """Something that a client will do in this turn, beside its first message and notes: see ``ScheduledMessage``,
    whose other fields are in ``more``. ``leases``: from and to, how long after it is due. ``needed``: a one-shot task
    does not end before it has come."""

    kind: MessageKind
    turn: int
    leases: tuple[float, float] = (0.0, 1.0)
    needed: bool = False
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Drawing:
    """One task being drawn. ``notes``: the turns, from 1, during which a client says something more; ``said``: what
    else it does, in order; ``turn_leases``: from and to, how long after the rest before it a turn is begun, where that
    matters."""

    task: str
    profile: Profile
    stream: Stream
    notes: list[int] = field(default_factory=list)
    said: list[Planned] = field(default_factory=list)
    turn_leases: dict[int, tuple[float, float]] = field(default_factory=dict)
    interactive: bool = False
    parks: bool = False
    _calls: int = 0
    _children: int = 0

    @property
    def next_tag(self) -> str:
        """The tag of the call that is drawn next."""
        return f"{self.task}#{self._calls + 1}"

    def call(self, tool: str, **more: int | str | float | Odd | None) -> Call:
        """A call under the next tag."""
        # Through the builder and not the constructor's types: `more` are fields of Arguments, checked by
        # to_goal.
        call = Call(tool, Arguments(self.next_tag, **more))  # type: ignore[arg-type]
        self._calls += 1
        return call

    def ordinary(self) -> Call:
        """A call of no particular interest."""
        return self.call(self.stream.weighted(ORDINARY))

    def slow(self, tool: str | None = None) -> Call:
        """A call that takes a good part of a lease, or several."""
        low, high = (leases * self.profile.lease_seconds for leases in self.profile.slow_leases)
        return self.call(
            tool or self.stream.choice(("slow", "slow_retry_safe")), seconds=self.stream.seconds(low, high)
        )

    def killer(self, tool: str, through: int) -> Call:
        """A call that dies at its first ``through`` starts."""
        return self.call(tool, dies_through_start=through, dies=self.stream.choice(("before", "after")))

    def ask(self, asked: Asked) -> Call:
        """A call that waits or delegates, under the next tag."""
        call = asking(self.next_tag, asked)
        self._calls += 1
        return call

    def span(self, leases: tuple[float, float]) -> float:
        """A wait of so many leases, in seconds."""
        low, high = (one * self.profile.lease_seconds for one in leases)
        return max(SECONDS_MIN, self.stream.seconds(low, high))

    def below(self) -> Drawing:
        """The next sub-agent being drawn, from the same stream."""
        self._children += 1
        return Drawing(f"{self.task}/{self._children}", self.profile, self.stream)

    def script(self, kind: str, turns: tuple[Turn, ...], think_seconds: float = 0.0) -> Script:
        """What was drawn, whole."""
        return Script(self.task, kind, turns, self.interactive, think_seconds, self.parks)

    def plan(
        self,
        kind: MessageKind,
        turn: int = 1,
        *,
        leases: tuple[float, float] = (0.0, 1.0),
        needed: bool = False,
        **more: Any,
    ) -> None:
        """A client does this."""
        self.said.append(Planned(kind, turn, leases, needed, more))

    def padding(self, most: int = 2) -> list[Step]:
        """None to a few ordinary replies."""
        return [Tools((self.ordinary(),)) for _ in range(self.stream.between(0, most))]

    def about(self, *middle: Step) -> tuple[Turn, ...]:
        """One turn that does this, with ordinary replies around it, and answers."""
        return (Turn((*self.padding(), *middle, *self.padding(), Say())),)

    def up_to(self, *last: Step) -> tuple[Turn, ...]:
        """One turn that works a little and then ends in this."""
        return (Turn((Tools((self.ordinary(),)), *self.padding(1), *last)),)

    def long_chars(self) -> int:
        """The length of a long text, in characters."""
        return CHARS_MAX if self.profile.huge else self.stream.between(20_000, 60_000)
