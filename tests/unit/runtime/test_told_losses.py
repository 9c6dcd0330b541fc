"""What a worker's log says of its own trouble: in words, of each lost claim by its task, and each traceback once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.commands.log_lines import OneLineASecond
from noeta.core.errors import InvalidLease
from noeta.core.jobs import JobSpec
from noeta.core.runner import Engine, Held
from noeta.core.runner.lease import LEASE_OVER, ORDERED
from noeta.core.store import NewTask
from noeta.runtime.process import ABANDONED, Process
from noeta.runtime.reliability import Kind, ReliabilityEvent, words
from tests.actors import SetWorld
from tests.unit.runtime.fake_jobs import FakeTable
from tests.unit.runtime.scene import Scene

LEASE = 60.0


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The log as ``noeta worker`` limits it."""
    caplog.set_level(logging.INFO)
    limit = OneLineASecond()
    caplog.handler.addFilter(limit)
    yield caplog
    caplog.handler.removeFilter(limit)


class Claims:
    """A process that holds three claims, each with a job."""

    def __init__(self) -> None:
        self.world = SetWorld()
        self.store = MemoryStore(lambda: self.world.seconds)
        self.table = FakeTable(self.world)
        self.process = Process(
            self.world,
            self.store,
            lease_seconds=LEASE,
            heartbeat_interval=LEASE / 3,
            heartbeat_wait=lambda seconds: True,
            jobs=self.table,
        )
        self.held = [self._hold(id) for id in ("a", "b", "c")]

    def _hold(self, id: str) -> Held:
        self.store.create(NewTask(id, "agent", "goal"))
        (claim,) = self.store.claim("w1", None, LEASE).claims
        held = Held(self.world, self.store, claim, self.world.seconds + LEASE)
        self.process.keep(held)
        self.table.jobs_of(held).start("3-0", JobSpec("make it so"))
        return held

    def drop_all(self) -> None:
        for held in self.held:
            self.process.drop(held)


def test_after_a_freeze_each_lost_claim_is_named_with_the_jobs_that_were_killed(log: pytest.LogCaptureFixture) -> None:
    """Whoever finds it out first, the step or the keeper; and never left out, though they come at once."""
    claims = Claims()
    claims.table.jobs_of(claims.held[0]).start("5-0", JobSpec("make more of it"))
    claims.table.jobs_of(claims.held[1]).finish("3-0", "killed")
    claims.table.jobs_of(claims.held[2]).finish("3-0", "exited")
    claims.world.seconds += LEASE
    with pytest.raises(InvalidLease):
        claims.held[0].check()

    claims.process._keeper.beat()
    claims.drop_all()

    told = {record.getMessage() for record in log.records}
    assert len(log.records) == len(told) == 3
    (a,), (b,), (c,) = ([one for one in told if one.startswith(f"task {id}: ")] for id in "abc")
    assert a.startswith(
        f"task a: this worker lost its claim: {LEASE_OVER}; with it 2 background jobs are killed: 3-0, 5-0"
    )
    assert "; with it 1 background job is killed: 3-0 (" in b
    assert "background" not in c, "it had ended by itself"


def test_what_the_keeper_said_is_not_said_again_and_a_claim_that_is_kept_is_none(log: pytest.LogCaptureFixture) -> None:
    claims = Claims()
    claims.held[0].cut(ORDERED)  # its task ends, under the same claim
    claims.held[1].cut(ABANDONED)  # which is said by itself

    claims.drop_all()
    claims.drop_all()

    assert log.records == []


SIGNALS: tuple[tuple[Kind, str | None, dict[str, object], str], ...] = (
    (
        "stale_requeued",
        None,
        {"count": 3, "task_ids": ("a", "b", "c")},
        "3 tasks may be claimed again, since the leases were over: a, b, c",
    ),
    ("timers_fired", None, {"count": 1, "task_ids": ("a",)}, "1 task may go on, since a timer was due: a"),
    ("suspended_without_wake", "t", {}, "task t: claimed, and nothing has come for it: it waits on"),
    (
        "step_failed_retryable",
        "t",
        {"reason": "KeyError: {'x'}"},
        "task t: its step failed, and is tried again within its bound: KeyError: {'x'}",
    ),
    ("heartbeat_invalid_lease", "t", {"reason": "why"}, "task t: this worker lost its claim: why"),
    (
        "heartbeat_invalid_lease",
        "t",
        {"reason": "why", "jobs": ("3-0",)},
        "task t: this worker lost its claim: why; with it 1 background job is killed: 3-0",
    ),
    (
        "shutdown_abandoned",
        "t",
        {"grace_s": 10.0},
        "task t: its step did not end within 10 s, and is left to its lease",
    ),
    (
        "attempt_abandoned",
        "t",
        {"reason": "auto_redrive", "abandoned_from_seq": 4},
        "task t: what was half done from seq 4 on is given up (auto_redrive)",
    ),
    (
        "attempt_parked",
        "t",
        {"reason": "attempt_parked", "abandoned_from_seq": 4},
        "task t: a person is to say how it goes on from seq 4 (attempt_parked)",
    ),
)


@pytest.mark.parametrize(("kind", "task", "detail", "told"), SIGNALS)
def test_a_signal_is_told_in_words(kind: Kind, task: str | None, detail: dict[str, object], told: str) -> None:
    assert words(ReliabilityEvent(kind, task, None, detail)) == told


def failing(error: Callable[[], Exception]) -> Callable[[object], Engine]:
    def resolve(task: object) -> Engine:
        raise error()

    return resolve


def test_a_traceback_is_in_the_log_once_for_errors_of_a_type_from_a_place(caplog: pytest.LogCaptureFixture) -> None:
    """Each error has its line all the same."""
    errors = [KeyError("no such agent"), KeyError("another"), ValueError("else")]
    scene = Scene(methods={"resolve_engine": failing(lambda: errors[tried])})
    for tried in range(3):
        scene.create(f"t{tried}")
        scene.loop.tick()

    found = [record for record in caplog.records if record.name == "noeta.worker" and record.levelno == logging.ERROR]
    assert [(record.getMessage(), record.exc_info is not None) for record in found] == [
        ("task t0: an error escaped the step: KeyError: 'no such agent'", True),
        ("task t1: an error escaped the step: KeyError: 'another'", False),
        ("task t2: an error escaped the step: ValueError: else", True),
    ]
