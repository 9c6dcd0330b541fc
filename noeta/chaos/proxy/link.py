"""One connection of a client with one of the server: what passes, what is held back, and where it is cut. No sockets.

A statement that a cut may be meant for is held back from its Bind on, until its Execute says whether it is: so a cut
*before* the commit sends nothing of it. A cut *after* the commit sends it whole, keeps the server's whole answer to
itself, and then cuts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Final

from noeta.chaos.proxy import messages
from noeta.chaos.proxy.answer import Answer, Outcome
from noeta.chaos.proxy.cuts import Cut, Cuts, Who
from noeta.chaos.proxy.frames import Frame, FrameReader, ProtocolError, Start
from noeta.chaos.proxy.record import CutLine
from noeta.chaos.proxy.session import Commit, Session
from noeta.chaos.schedule import Kind
from noeta.core.ids import micros

NO_ENCRYPTION: Final = b"N"


class Side(Enum):
    """An end of a link."""

    CLIENT = "client"
    SERVER = "server"

    @property
    def other(self) -> Side:
        return Side.SERVER if self is Side.CLIENT else Side.CLIENT


class _Listening:
    """A cut after the commit, between its statement and its answer."""

    def __init__(self, cut: Cut, commit: Commit, results_before: int, at: int) -> None:
        self.cut, self.commit, self.at = cut, commit, at
        self.answer = Answer(commit, results_before)
        self.is_sent = commit.whole


class Link:
    """``record`` hears of every cut before its client does. ``pending``: what is to be sent to each side; ``gone``:
    sides that have ended, or of which nothing more is wanted."""

    def __init__(self, cuts: Cuts, record: Callable[[CutLine], None], clock: Callable[[], float] = time.time) -> None:
        self.pending = {Side.CLIENT: bytearray(), Side.SERVER: bytearray()}
        self.gone: set[Side] = set()
        self.is_connected = False
        self.is_reset = False
        """Whether the client is to be cut off now, behind what is pending for it."""
        self._cuts, self._record, self._clock = cuts, record, clock
        self._client, self._server = FrameReader(client=True), FrameReader(client=False)
        self._session: Session | None = None
        self._who = Who("", 0)
        self._held: list[Frame] = []
        self._listening: _Listening | None = None

    # -- for the pump --------------------------------------------------------------------------------------

    def received(self, side: Side, data: bytes) -> None:
        """Bytes came from this side."""
        if self.gone:
            return  # the other side is gone: whatever this one says, nobody hears it
        try:
            frames = (self._client if side is Side.CLIENT else self._server).feed(data)
            for frame in frames:
                if not self.gone:
                    (self._from_client if side is Side.CLIENT else self._from_server)(frame)
        except ProtocolError:
            self.gone = {Side.CLIENT, Side.SERVER}

    def ended(self, side: Side) -> None:
        """This side is gone; what it said before still goes to the other one."""
        if side in self.gone:
            return
        if not self.gone:
            if side is Side.CLIENT:
                self._let_go()
            reader = self._client if side is Side.CLIENT else self._server
            self.pending[side.other] += reader.rest
        self.gone.add(side)
        if self._listening is not None:
            self._over(is_cut=side is Side.SERVER)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do."""
        return bool(self.gone) and all(side in self.gone or not pending for side, pending in self.pending.items())

    @property
    def is_listening(self) -> bool:
        """Whether a cut waits for the server's answer."""
        return self._listening is not None

    def call_off(self) -> None:
        """Give up a cut whose statement has not been sent whole: its client may be stopped in the middle of it."""
        if self._listening is not None and not self._listening.is_sent:
            self._listening = None

    # -- from the client -----------------------------------------------------------------------------------

    def _from_client(self, frame: Frame) -> None:
        if self._session is None:
            self._begin(frame)
            return
        if self._listening is not None and self._listening.is_sent:
            return  # behind the statement that is cut: the connection was broken by then
        is_held = bool(self._held)
        if is_held and frame.kind not in (messages.DESCRIBE, messages.EXECUTE):
            self._let_go()
            is_held = False
        may_be_cut = self._cuts.may_hit(self._who) and self._session.opens_commit(frame)
        commit = self._session.from_client(frame)
        if self._listening is not None:
            self._listening.is_sent = frame.kind in (messages.SYNC, messages.QUERY)
        elif commit is not None and (cut := self._cuts.passing(self._who, commit.verb, commit.facts)) is not None:
            self._strike(cut, commit)
            if self.is_reset:
                return
        elif (is_held and commit is None and frame.kind == messages.DESCRIBE) or (may_be_cut):
            self._held.append(frame)
            return
        self._let_go()
        self.pending[Side.SERVER] += frame.raw

    def _begin(self, frame: Frame) -> None:
        if frame.start is Start.ENCRYPTION:
            self.pending[Side.CLIENT] += NO_ENCRYPTION
            return
        if frame.start is Start.SESSION:
            self._session = Session()
            self._who = Who.of(messages.parameters(frame).get("application_name", ""))
        self.pending[Side.SERVER] += frame.raw

    def _let_go(self) -> None:
        for frame in self._held:
            self.pending[Side.SERVER] += frame.raw
        self._held.clear()

    def _strike(self, cut: Cut, commit: Commit) -> None:
        assert self._session is not None
        at = micros(self._clock())
        if cut.kind is Kind.CUT_BEFORE_COMMIT:
            self._tell(cut, commit, at, Outcome.NOT_LANDED, "never sent to the server", is_cut=True)
            self._reset()
        else:
            is_next = self._session.ready + 1 == commit.answer
            self._listening = _Listening(cut, commit, self._session.results if is_next else 0, at)

    # -- from the server -----------------------------------------------------------------------------------

    def _from_server(self, frame: Frame) -> None:
        listening, session = self._listening, self._session
        if listening is not None and session is not None and session.ready + 1 >= listening.commit.answer:
            listening.answer.add(frame)
            session.from_server(frame)
            if listening.answer.is_whole:
                self._over(is_cut=True)
            return
        if session is not None:
            session.from_server(frame)
        self.pending[Side.CLIENT] += frame.raw

    def _over(self, *, is_cut: bool) -> None:
        """The answer is in, or there will be none: say so, and cut the client off if it is there."""
        listening, self._listening = self._listening, None
        assert listening is not None
        outcome, why = listening.answer.verdict()
        if not is_cut and not listening.answer.is_whole:
            why = "its client was gone before the server's answer came"
        self._tell(
            listening.cut, listening.commit, listening.at, outcome, why, listening.answer.sqlstate, is_cut=is_cut
        )
        if is_cut:
            self._reset()

    def _reset(self) -> None:
        self.is_reset = True
        self.gone.add(Side.CLIENT)

    def _tell(
        self,
        cut: Cut,
        commit: Commit,
        at: int,
        outcome: Outcome,
        why: str,
        sqlstate: str | None = None,
        *,
        is_cut: bool,
    ) -> None:
        self._record(
            CutLine(
                fault=cut.id,
                kind=cut.kind,
                at=at,
                ended_at=micros(self._clock()),
                process=str(self._who),
                verb=commit.verb,
                outcome=outcome,
                why=why,
                is_cut=is_cut,
                sqlstate=sqlstate,
                facts=commit.facts,
            )
        )
