"""Bugs that are more than a changed line: what stands around a function, and stores that answer too early."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, Final

from noeta.core import codec, lower
from noeta.core.ids import micros
from noeta.core.lower import Write
from noeta.core.store import Appended, Claim, Commit, Continue, End
from noeta.core.task import Cause, Keeps, Shape, Status

LATER_SECONDS: Final = 0.02
"""How long after its answer an append is sent, where that is the bug."""


# -- the lease by the worker's clock ---------------------------------------------------------------------------

_skew: list[Callable[[], float]] = []
"""How wrong this process's wall clock is, in seconds: set when the harness's world is made."""

_sent: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def server_with_its_own_clock(init: Any) -> Any:
    """The simulated server keeps virtual time where nobody asks: the bug is in what a worker's call reads."""

    def made(server: Any, scheduler: Any, *more: Any) -> None:
        from noeta.chaos.sim.scheduler import WALL_START

        init(server, scheduler, *more)
        server.store._clock = lambda: (WALL_START + scheduler.now) / 1e6

    return made


def serve_by_the_workers_clock(serve: Any) -> Any:
    """The simulator's store reads the clock of whoever asks."""

    def skewed(server: Any, process: Any, call: Any, do: Callable[[], Any]) -> Any:
        from noeta.chaos.sim.scheduler import WALL_START

        def clock() -> float:
            return float(WALL_START + server._scheduler.now + process.wall_offset) / 1e6

        before, server.store._clock = server.store._clock, clock
        try:
            return serve(server, process, call, do)
        finally:
            server.store._clock = before

    return skewed


def remember_the_world(init: Any) -> Any:
    """The harness's world says how wrong this process's clock is meant to be."""

    def made(world: Any, *args: Any, **more: Any) -> None:
        init(world, *args, **more)
        _skew[:] = [lambda: world.wall() - time.time()]

    return made


def send_the_workers_clock(run: Any) -> Any:
    """Before a statement the session is told this process's clock; ``clock()`` adds it."""

    def skewed(connection: Any, name: str, statement: str, values: Any) -> Any:
        skew = micros(round(_skew[0]() if _skew else 0.0, 1))
        if _sent.get(connection, 0) != skew:
            run(connection, "set_skew", "SELECT set_config('noeta.skew', $1::text, false)", (str(skew),))
            _sent[connection] = skew
        return run(connection, name, statement, values)

    return skewed


# -- acknowledged before the commit ----------------------------------------------------------------------------


def _promise(claim: Claim, write: Write) -> Appended:
    """What an append would most likely be answered."""
    last_seq = write.expected_seq + len(write.bodies) + (write.ending is not None)
    status = Status.SUSPENDED if write.target.shape is Shape.KEPT else Status(write.target.shape.value)
    return Appended(write.expected_seq + 1, last_seq, 0, status, False, claim.inbox_seq)


def buffered_append(append: Any) -> Any:
    """Appends to the memory store wait in a buffer of their worker until its next call, and die with it."""

    def at_once(store: Any, claim: Claim, expected_seq: int, commit: Commit) -> Appended:
        _send(store, claim.worker)
        write = lower.lower_commit(claim, expected_seq, commit)
        _buffers(store).setdefault(claim.worker, []).append((claim, write))
        return _promise(claim, write)

    return at_once


def after_buffered_appends(verb: Any) -> Any:
    """A call of a worker that comes after its appends."""

    def ordered(store: Any, first: Any, *args: Any, **more: Any) -> Any:
        for one in (first,) if isinstance(first, str | Claim) else first:
            _send(store, one if isinstance(one, str) else one.worker)
        return verb(store, first, *args, **more)

    return ordered


def _buffers(store: Any) -> dict[str, list[tuple[Claim, Write]]]:
    buffers: dict[str, list[tuple[Claim, Write]]] = vars(store).setdefault("_buffers", {})
    return buffers


def _send(store: Any, worker: str) -> None:
    for claim, write in _buffers(store).pop(worker, []):
        try:
            with store._lock:
                store._apply(claim, write, store._now())
        except Exception:
            pass  # it was answered long ago


def append_acknowledged_first(append: Any) -> Any:
    """A thread of the process sends what the answer promised."""
    waiting: SimpleQueue[Callable[[], object]] = SimpleQueue()

    def send() -> None:
        while True:
            write = waiting.get()
            time.sleep(LATER_SECONDS)
            try:
                write()
            except Exception:
                pass  # it was answered long ago

    threading.Thread(target=send, name="late appends", daemon=True).start()

    def at_once(store: Any, claim: Claim, expected_seq: int, commit: Commit) -> Appended:
        write = lower.lower_commit(claim, expected_seq, commit)
        waiting.put(lambda: append(store, claim, expected_seq, commit))
        return _promise(claim, write)

    return at_once


# -- apart from the append --------------------------------------------------------------------------------------


def children_born_first(flush: Any) -> Any:
    """Children are created in a commit of their own, before the one that says so."""

    def born(desk: Any, *args: Any, **more: Any) -> Any:
        if desk._children:
            first = Commit((), Continue(), desk._inbox_seen, tuple(desk._children))
            desk._held.append(desk._durable_seq, first)
            desk._children = []
        return flush(desk, *args, **more)

    return born


def posts_sent_first(flush: Any) -> Any:
    """What a tool posts is sent in a commit of its own, before the one that says so, and under no key."""

    def sent(desk: Any, *args: Any, **more: Any) -> Any:
        if desk._posts:
            unkeyed = tuple(replace(post, key=None) for post in desk._posts)
            desk._held.append(desk._durable_seq, Commit((), Continue(), desk._inbox_seen, (), unkeyed))
            desk._posts = []
        return flush(desk, *args, **more)

    return sent


# -- a child's result, told apart ------------------------------------------------------------------------------


def append_and_then_tell(append: Any) -> Any:
    """After an append that ended a child, its parent is told, by whoever is still there to do so."""

    def told(held: Any, expected_seq: int, commit: Commit) -> Appended:
        appended: Appended = append(held, expected_seq, commit)
        claim, ending = held.claim, commit.next
        if isinstance(ending, End) and claim.parent is not None and appended.status is Status.TERMINAL:
            result = lower.lower_result(claim.task_id, claim.parent, claim.group, ending.entry)
            held._store.post(claim.parent, codec.decode_item(result.body), result.key)
        return appended

    return told


# -- the table -------------------------------------------------------------------------------------------------


def transitions_that_keep_the_epoch(table: Any) -> Any:
    """The transition table, with a claim that leaves the epoch as it was."""
    return {**table, Cause.CLAIM: replace(table[Cause.CLAIM], raises_epoch=False)}


def transitions_that_cancel_under_the_epoch(table: Any) -> Any:
    """The transition table, with a cancel that leaves the epoch as it was."""
    return {**table, Cause.CANCEL: replace(table[Cause.CANCEL], raises_epoch=False)}


def transitions_that_hold_a_wait(table: Any) -> Any:
    """The transition table, with a wait that leaves worker, token and lease as they were."""
    return {**table, Cause.SUSPEND: replace(table[Cause.SUSPEND], owner=Keeps.UNCHANGED)}
