"""What clients ask of the store, written down before it is sent and again after its answer.

Without the first line nobody could tell a store that loses what it acknowledged from a client that never asked; the
second line is the acknowledgement. An operation without an answer stays open: it may have landed.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from invariants.evidence import Answer, Verb
from noeta.chaos.evidence_dir import LineWriter
from noeta.chaos.recording import answer_of
from noeta.core import codec, ids, lower
from noeta.core.errors import NoetaError
from noeta.core.events import TaskCreated
from noeta.core.store import Created, NewTask, Posted, Store
from noeta.core.wake import ControlReceived, Item, item_key

T = TypeVar("T")


class OpSent(msgspec.Struct, frozen=True, tag="sent", tag_field="phase", omit_defaults=True):
    """An operation that is about to be sent. ``at`` is microseconds by the client's clock. ``hashes``: of the entries
    it may write (a create's; of a cancel, the terminal one). Of a post, ``item``: hex SHA-256 of the item's bytes; and
    ``wakes``: the key under which it can end a wait."""

    id: str
    client: str
    verb: Verb
    task: str
    at: int
    key: str | None = None
    hashes: tuple[str, ...] = ()
    item: str = ""
    wakes: str = ""


class OpAnswered(msgspec.Struct, frozen=True, tag="answered", tag_field="phase", omit_defaults=True):
    """What came back. ``outcome`` is the store's word for a post (``stored``, ``repeat``, ``ended``, ``cancelled``),
    ``number`` the item's; ``epoch`` and ``last_seq`` are those of a task that it ended; ``error`` is a stable code."""

    id: str
    task: str
    at: int
    answer: Answer
    outcome: str | None = None
    number: int | None = None
    error: str | None = None
    epoch: int | None = None
    last_seq: int | None = None


HistoryLine = OpSent | OpAnswered


class History:
    """The recorder of all clients of a run. For several threads."""

    def __init__(self, lines: LineWriter, clock: Callable[[], float] = time.time) -> None:
        self._lines = lines
        self._clock = clock
        self._numbers = itertools.count(1)

    def create(self, client: str, store: Store, task: NewTask) -> Created:
        """Create a task, on the record."""
        body = codec.encode("task", TaskCreated(task.agent, task.goal, task.interactive))
        sent = self._sent(client, Verb.CREATE, task.id, hashes=(ids.sha256_text(body),))
        created = self._asked(sent, lambda: store.create(task))
        self._lines.add(OpAnswered(sent.id, sent.task, self._now(), Answer.OK, number=1))
        return created

    def post(self, client: str, store: Store, task_id: str, item: Item, key: str) -> Posted:
        """Post an item, on the record."""
        ends: tuple[str, ...] = ()
        if isinstance(item, ControlReceived) and lower.is_cancel(item):
            ends = (ids.sha256_text(codec.encode("ending", lower.cancelled_by(item))),)
        body = ids.sha256_text(codec.encode("item", item))
        sent = self._sent(client, Verb.POST, task_id, key=key, hashes=ends, item=body, wakes=item_key(item))
        posted = self._asked(sent, lambda: store.post(task_id, item, key))
        self._lines.add(
            OpAnswered(
                sent.id,
                sent.task,
                self._now(),
                Answer.OK,
                outcome=posted.outcome,
                number=posted.number,
                epoch=posted.epoch,
                last_seq=posted.last_seq,
            )
        )
        return posted

    def _sent(
        self,
        client: str,
        verb: Verb,
        task: str,
        *,
        key: str | None = None,
        hashes: tuple[str, ...] = (),
        item: str = "",
        wakes: str = "",
    ) -> OpSent:
        sent = OpSent(f"{client}/{next(self._numbers)}", client, verb, task, self._now(), key, hashes, item, wakes)
        self._lines.add(sent)
        return sent

    def _asked(self, sent: OpSent, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except NoetaError as error:
            self._lines.add(OpAnswered(sent.id, sent.task, self._now(), answer_of(error), error=error.code))
            raise

    def _now(self) -> int:
        return ids.micros(self._clock())
