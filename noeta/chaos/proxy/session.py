"""What a session is doing, read off the frames that pass: statements, portals, transactions, answers that are owed.

Pure. It finds the frame that makes a write verb run *and* commit: an Execute (or a simple Query) outside a
transaction, or the COMMIT of one. An answer is owed for each Sync and each Query; so in a pipeline it is known which
frames of the server belong to which statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from noeta.chaos.proxy import messages
from noeta.chaos.proxy.frames import Frame
from noeta.chaos.proxy.verbs import TASK_FIRST, verb_of
from noeta.chaos.schedule import ANY_COMMIT

IDLE = "I"


@dataclass(frozen=True, slots=True)
class Commit:
    """A statement that is about to commit. ``answer``: the so-manieth ReadyForQuery of its session ends its answer;
    ``place``: the so-manieth statement before that one it is, from 0; ``whole``: nothing more of it is to come."""

    verb: str
    facts: Mapping[str, str]
    answer: int
    place: int
    whole: bool


@dataclass(frozen=True, slots=True)
class _Opened:
    verb: str | None
    facts: Mapping[str, str]


_NOTHING = _Opened(None, {})


@dataclass(slots=True)
class Session:
    """One connection after its start-up packet. ``asked`` and ``ready``: answers owed and given in whole;
    ``results``: statements of the answer under way whose result is in."""

    asked: int = 1
    ready: int = 0
    results: int = 0
    status: str = IDLE
    _statements: dict[bytes, str | None] = field(default_factory=dict)
    _portals: dict[bytes, _Opened] = field(default_factory=dict)
    _executed: int = 0

    # -- from the client -----------------------------------------------------------------------------------

    def opens_commit(self, frame: Frame) -> bool:
        """Whether this Bind opens a portal whose Execute would commit: from here on it is that statement's."""
        if frame.kind != messages.BIND:
            return False
        return self._commits(self._statements.get(messages.bind(frame).statement))

    def from_client(self, frame: Frame) -> Commit | None:
        """Note a frame that passes; the commit that it would cause, if it causes one."""
        match frame.kind:
            case messages.PARSE:
                name, text = messages.parse(frame)
                self._statements[name] = verb_of(text)
            case messages.BIND:
                bound = messages.bind(frame)
                verb = self._statements.get(bound.statement)
                facts = {"task": bound.first} if verb in TASK_FIRST and bound.first is not None else {}
                self._portals[bound.portal] = _Opened(verb, facts)
            case messages.CLOSE:
                what, name = messages.closed(frame)
                (self._statements if what == b"S" else self._portals).pop(name, None)
            case messages.EXECUTE:
                opened = self._portals.get(messages.portal(frame), _NOTHING)
                place, self._executed = self._executed, self._executed + 1
                if opened.verb is not None and self._commits(opened.verb):
                    return Commit(opened.verb, opened.facts, self.asked + 1, place, whole=False)
            case messages.QUERY:
                verb, place = verb_of(messages.query(frame)), self._executed
                self._ends_unit()
                if verb is not None and self._commits(verb):
                    return Commit(verb, {}, self.asked, place, whole=True)
            case messages.SYNC | messages.CALL:
                self._ends_unit()
        return None

    def _commits(self, verb: str | None) -> bool:
        return verb is not None and (verb == ANY_COMMIT or self.status == IDLE)

    def _ends_unit(self) -> None:
        self.asked += 1
        self._executed = 0

    # -- from the server -----------------------------------------------------------------------------------

    def from_server(self, frame: Frame) -> None:
        """Note a frame of the server."""
        if frame.kind == messages.READY:
            self.ready += 1
            self.results = 0
            self.status = messages.status(frame)
        elif frame.kind in (messages.COMPLETE, messages.EMPTY, messages.SUSPENDED):
            self.results += 1
