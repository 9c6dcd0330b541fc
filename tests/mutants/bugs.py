"""Bugs that are more than a changed line: what stands around a function, and stores that answer too early."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, Final

from noeta.core import lower
from noeta.core.ids import micros
from noeta.core.lower import Write
from noeta.core.store import Appended, Claim, Commit
from noeta.core.task import Cause, Shape, Status

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


# -- the table -------------------------------------------------------------------------------------------------


def transitions_that_keep_the_epoch(table: Any) -> Any:
    """The transition table, with a claim that leaves the epoch as it was."""
    return {**table, Cause.CLAIM: replace(table[Cause.CLAIM], raises_epoch=False)}
