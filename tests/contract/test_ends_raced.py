"""A finish and a reaper at once, ten thousand times. (Three hundred on a server: test_postgres_family.py.)"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.core.errors import InvalidLease, NoetaError
from noeta.core.events import TaskCompleted, TaskFailed
from noeta.core.store import Appended, Claim, Commit, End, Failed, NewTask, Renewal
from noeta.core.task import Status
from noeta.testing.contract.stage import DEADLINE_SECONDS, LEASE, at_once

RACES = 10_000
STORE_HOLDS = 100
"""Races over one store: a claim of the store in memory looks at every task."""

SWITCH_SECONDS = 1e-4
"""How long a thread runs before another one may go on: short enough that the calls of one race overlap."""

DONE = Commit(next=End(TaskCompleted("done")))


@pytest.fixture
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_switches")
def test_ten_thousand_finishes_and_reapers_leave_one_ending_each() -> None:
    """With a heartbeat on its way each time, and one after the end. Keeps: terminal-is-final, one-writer.

    https://github.com/rails/solid_queue/issues/589 , https://github.com/PrefectHQ/prefect/issues/18653 ,
    https://github.com/PrefectHQ/prefect/issues/16459
    """
    together = threading.Barrier(3, timeout=DEADLINE_SECONDS)
    finishes = sum(_race(together) for _ in range(RACES // STORE_HOLDS))

    assert 0 < finishes < RACES, f"one side was always first: {finishes} finishes of {RACES}"


def _race(together: threading.Barrier) -> int:
    """As many races as a store holds; how many the finish won."""
    store = MemoryStore()
    claims = [_claimed(store, f"t{n}") for n in range(STORE_HOLDS)]

    def through(call: Callable[[Claim], object]) -> list[object]:
        answers: list[object] = []
        for claim in claims:
            together.wait()
            answers.append(_answer_of(partial(call, claim)))
        return answers

    answers = at_once(
        lambda: through(lambda claim: store.append(claim, 1, DONE)),
        lambda: through(lambda claim: store.fail(claim, "reaped", retryable=False)),
        lambda: through(lambda claim: store.renew(claim, LEASE)[0]),
    )

    assert all(isinstance(answer, list) for answer in answers), answers
    finished, reaped, beats = (answer for answer in answers if isinstance(answer, list))
    finishes = 0
    for claim, finish, reap, beat in zip(claims, finished, reaped, beats, strict=True):
        won = isinstance(finish, Appended)
        finishes += won
        assert isinstance(finish, Appended | InvalidLease) and isinstance(reap, Failed | InvalidLease)
        assert won != isinstance(reap, Failed), (finish, reap)
        assert isinstance(beat, Renewal) and beat.outcome in ("held", "lost")
        page = store.read(claim.task_id)
        assert [type(entry.event) for entry in page.entries[1:]] == [TaskCompleted if won else TaskFailed]
        assert page.row.status is Status.TERMINAL
    assert {renewal.outcome for renewal in store.renew(claims, LEASE)} == {"lost"}
    assert store.claim("nobody", None, LEASE).claims == ()
    return finishes


def _claimed(store: MemoryStore, id: str) -> Claim:
    store.create(NewTask(id, "agent", "goal"))
    (claim,) = store.claim("w", None, 3_600.0).claims
    return claim


def _answer_of(call: Callable[[], object]) -> object:
    """What the call answered or raised."""
    try:
        return call()
    except NoetaError as error:
        return error
