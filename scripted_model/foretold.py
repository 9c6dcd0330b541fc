"""What is foretold of a task, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

Bound = Literal["model_attempts", "tool_starts", "provider_attempts", "truncated_replies", "empty_replies"]
Outcome = Literal["completed", "failed", "waiting", "cancelled"]


@dataclass(frozen=True, slots=True)
class ForetoldCall:
    """One call, which the log must hold exactly once. ``source`` as in ``ToolFinished``, or ``parked``: it has no
    result of its own, a person said how to go on; ``starts``: how many.

    Calls to the caller's tools journal nothing. ``is_error`` None: not foretold, because the answer and the end of the
    time limit are both on their way, or a background shell may have ended before it is read or stopped.
    """

    tag: str
    tool: str
    turn: int
    source: Literal["ran", "recovered", "unknown", "woken", "denied", "parked"]
    is_error: bool | None
    starts: int


@dataclass(frozen=True, slots=True)
class ForetoldTurn:
    """How a turn ends: with an ``answer``, with none, or failed for a ``reason`` of ``noeta.core.texts``."""

    number: int
    ends: Literal["answer", "no_answer", "failed"]
    reason: str | None
    answer: str | None


@dataclass(frozen=True, slots=True)
class ForetoldChild:
    """A sub-agent that is born somewhere below a task, unless that is cancelled or closed before.

    ``name``: ``Script.task`` of its script, once in the tree. ``above``: the name of the task whose call ``tag`` bears
    it; ``number``: which of that call's children, from 1. In the ``background`` its owner is the root. ``depth``: 1
    for a child of the root. ``may_be_cancelled``: something above it may end or be closed while it runs.
    """

    name: str
    above: str
    tag: str
    number: int
    depth: int
    background: bool
    may_be_cancelled: bool


@dataclass(frozen=True, slots=True)
class ForetoldJob:
    """A background shell that call ``tag`` starts. If nothing strikes and nothing stops it, it writes ``lines`` lines
    and exits with ``exit_code`` (None: for ever); ``is_stopped``: a later call stops it, unless it has ended before."""

    tag: str
    turn: int
    lines: int | None
    exit_code: int | None
    is_stopped: bool


@dataclass(frozen=True, slots=True)
class ForetoldCron:
    """An entry of the cron table, which call ``tag`` makes; it fires at no time that its table does not name, at each
    at most once, and only while the task rests. ``is_removed``: a later call takes it away."""

    tag: str
    turn: int
    expression: str
    zone: str
    is_removed: bool


@dataclass(frozen=True, slots=True)
class Foretold:
    """What must be true of one task at the end.

    Attributes:
        outcome: ``waiting``: an interactive task after its last turn. ``outcomes`` says when it may be cancelled.
        answer: of the last turn, as is ``reason``.
        calls: in order; complete, unless the task is cancelled. After a close they are complete as well (what a closed
            turn left out the next one does), but those that the close met have no result, or that of a lost start.
        message_keys: must each be taken exactly once; ``refusable_keys`` as well, unless the post was refused because
            the task had ended. Of a task that was cancelled nothing need be taken. Keys of answers, of events that
            nobody needs, of cancels and closes are not among them.
        cancel_keys: of scheduled cancels: if a post was accepted, the task ends cancelled (or failed as foretold, if
            that came first); if each was refused because the task had ended, the rest holds as it stands.
        close_keys: of scheduled closes: how many turns end and how the calls of the closed turn end is not foretold;
            which calls are made and the last answer are.
        may_be_cancelled: its parent may end, or be closed, while it runs.
        turns_counted: whether exactly ``turns`` end. Messages may share a turn, or open one again; so may the end of a
            background shell, and a cron table; and a park is a rest more.
        bounds: the retry bounds this task reaches all by itself.
        deaths: how many workers it kills if nothing else does, its sub-agents not counted.
        descendants: everybody born below it; ``children`` are its own.
        jobs: in order: each is started once at most, and the model is told once what came of it, unless its task ended
            first. Under faults it may be lost with its worker, or its call may end unknown, and it is not started.
        crons: in order.
        may_be_parked: each call whose outcome nobody can tell parks the task, which goes on when somebody says so.
    """

    task: str
    kind: str
    outcome: Outcome
    reason: str | None
    answer: str | None
    turns: tuple[ForetoldTurn, ...]
    calls: tuple[ForetoldCall, ...]
    message_keys: tuple[str, ...]
    refusable_keys: tuple[str, ...]
    bounds: tuple[Bound, ...]
    deaths: int
    cancel_keys: tuple[str, ...] = ()
    close_keys: tuple[str, ...] = ()
    may_be_cancelled: bool = False
    turns_counted: bool = True
    name: str = ""
    descendants: tuple[ForetoldChild, ...] = ()
    jobs: tuple[ForetoldJob, ...] = ()
    crons: tuple[ForetoldCron, ...] = ()
    may_be_parked: bool = False

    @property
    def calls_per_tool(self) -> dict[str, int]:
        """How many calls to each tool the log must hold."""
        return dict(sorted(Counter(call.tool for call in self.calls).items()))

    @property
    def children(self) -> tuple[ForetoldChild, ...]:
        """The sub-agents that this task's own calls bear, in order; as many are born, whoever owns them."""
        return tuple(child for child in self.descendants if child.above == self.name)

    def find(self, name: str) -> ForetoldChild | None:
        """The descendant whose script has this name."""
        return next((child for child in self.descendants if child.name == name), None)

    def outcomes(self, accepted_keys: Collection[str] = ()) -> frozenset[Outcome]:
        """How it may end, given the keys of the posts that were accepted (stored, or known already)."""
        if any(key in accepted_keys for key in self.cancel_keys):
            # A turn of an interactive task that fails ends nothing.
            return frozenset({"cancelled", "failed"} if self.outcome == "failed" else {"cancelled"})
        return frozenset({self.outcome, "cancelled"} if self.may_be_cancelled else {self.outcome})
