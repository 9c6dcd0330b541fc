"""Simulated background jobs: they write at their pace, and are gone when what is promised of a guard says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.chaos.sim.jobs import (
    CLAIM_LOST,
    DYING_SECONDS,
    LEASE_OVER,
    NOT_SCRIPTED,
    WORKER_CLOSED,
    SimJobs,
    SimJobTable,
)
from noeta.chaos.sim.scheduler import WALL_START, Scheduler
from noeta.chaos.sim.world import SimWorld
from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.jobs import JobSpec
from noeta.core.runner.lease import Held
from noeta.core.store import NewTask
from scripted_model.jobs import command_of
from scripted_model.journal import JournalBook
from scripted_model.script import Shell

LEASE = 10.0
MARGIN = 1.0


@dataclass
class Stage:
    """One worker process that holds one claim; ``play`` runs a body in it, and the clock as far as that goes."""

    scheduler: Scheduler = field(default_factory=lambda: Scheduler(0))
    book: JournalBook = field(default_factory=JournalBook)

    def __post_init__(self) -> None:
        self.process = self.scheduler.process("w1")
        self.world = SimWorld(self.process)
        self.table = SimJobTable(self.process, self.world, self.book, lease_seconds=LEASE)
        store = MemoryStore(lambda: (WALL_START + self.scheduler.now) / MICROS_PER_SECOND)
        store.create(NewTask("t", "agent", "goal"))
        (claim,) = store.claim("w1", None, LEASE).claims
        self.held = Held(self.world, store, claim, LEASE)
        self.jobs: SimJobs = self.table.of(self.held)

    def play(self, body: Callable[[], None], seconds: float = 100.0) -> None:
        self.process.start("main", body)
        self.scheduler.run(seconds_max=seconds, points_max=10_000)
        assert self.scheduler.crashes == []

    def wait(self, seconds: float) -> None:
        self.world.event().wait(seconds)

    def start(self, *, lines: int | None = None, every: float = 1.0, **more: int | bool) -> None:
        self.jobs.start("3-0", JobSpec(command_of("t#1", Shell(lines, every, **more))))  # type: ignore[arg-type]

    def start_and_wait(self) -> None:
        self.start()
        self.wait(60.0)

    @property
    def times(self) -> list[float]:
        return [round(line.time, 2) for line in self.book.jobs]

    @property
    def ends(self) -> list[tuple[str, int | None, int | None, str]]:
        return [(end.how, end.exit_code, end.signal, end.detail) for end in self.jobs.ended()]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_shell_writes_at_its_pace_and_exits(stage: Stage) -> None:
    seen: list[object] = []

    def body() -> None:
        changed = stage.jobs.changed
        stage.start(lines=3, every=0.5, exit_code=3)
        seen.append((stage.jobs.live(), stage.jobs.ended()))
        seen.append((changed.wait(60.0), round(stage.world.monotonic(), 1)))
        seen.append((stage.jobs.live(), stage.jobs.known(), stage.jobs.past()))
        stage.jobs.recorded(["3-0"])
        seen.append((stage.jobs.known(), stage.jobs.past(), stage.jobs.changed.is_set()))

    stage.play(body)

    one, none = frozenset({"3-0"}), frozenset[str]()
    assert seen == [(one, []), (True, 1.5), (none, one, none), (none, one, False)]
    assert stage.times == [0.0, 0.5, 1.0]
    assert [(line.task, line.job, line.tag, line.number) for line in stage.book.jobs] == [
        ("t", "3-0", "t#1", number) for number in (1, 2, 3)
    ]


def test_its_output_can_be_read_from_any_byte_until_its_end_is_recorded(stage: Stage) -> None:
    def body() -> None:
        stage.start(lines=2, every=0.5)
        first = stage.jobs.output("3-0")
        assert first is not None
        assert (first.text, first.start, first.total) == ("shell line 1\n", 0, 13)
        stage.wait(2.0)
        later = stage.jobs.output("3-0", 13)
        assert later is not None
        assert (later.text, later.start, later.total) == ("shell line 2\n", 13, 26)
        assert stage.jobs.output("1-0") is None
        stage.jobs.recorded(["3-0"])
        assert stage.jobs.output("3-0") is None

    stage.play(body)


def test_stopping_blocks_until_nothing_is_left(stage: Stage) -> None:
    def body() -> None:
        stage.start(stubborn=True)
        stage.wait(2.5)
        assert stage.jobs.stop(["1-0"])
        assert stage.jobs.live()
        assert stage.jobs.stop()
        assert not stage.jobs.live()
        assert stage.world.monotonic() == pytest.approx(2.5 + DYING_SECONDS, abs=0.01)

    stage.play(body, seconds=20.0)

    assert stage.ends == [("stopped", None, 15, "")]
    assert {line.by for line in stage.book.jobs} == {"shell", "grandchild"}
    assert max(stage.times) == 2.55  # the last word of a tree comes as late as it can


def test_a_signal_ends_it_and_says_which(stage: Stage) -> None:
    def body() -> None:
        assert not stage.jobs.signal("3-0", 9)
        stage.start()
        assert stage.jobs.signal("3-0", 9)
        stage.wait(1.0)

    stage.play(body, seconds=5.0)

    assert stage.ends == [("killed", None, 9, "")]


def test_a_tree_dies_with_its_worker(stage: Stage) -> None:
    stage.scheduler.at(3.5, stage.process.kill)

    stage.play(stage.start_and_wait, seconds=30.0)

    assert max(stage.times) == pytest.approx(3.5 + DYING_SECONDS, abs=0.01)


def test_the_guard_kills_a_margin_before_the_lease_is_over_although_the_worker_is_frozen(stage: Stage) -> None:
    stage.scheduler.at(2.0, lambda: stage.process.freeze(30.0))

    stage.play(stage.start_and_wait, seconds=50.0)

    assert max(stage.times) == pytest.approx(LEASE - MARGIN + DYING_SECONDS, abs=0.01)
    assert stage.ends == [("killed", None, 9, LEASE_OVER)]


def test_a_renewal_lets_it_live_and_only_once_the_guard_is_told(stage: Stage) -> None:
    def renewed(tell: bool) -> None:
        stage.held.deadline = 20.0
        if tell:
            stage.table.extended(stage.held)

    stage.scheduler.at(5.0, lambda: renewed(tell=True))
    stage.play(stage.start_and_wait, seconds=50.0)
    untold = Stage()
    untold.scheduler.at(5.0, lambda: setattr(untold.held, "deadline", 20.0))
    untold.play(untold.start_and_wait, seconds=50.0)

    assert max(stage.times) == pytest.approx(20.0 - MARGIN + DYING_SECONDS, abs=0.01)
    assert max(untold.times) == pytest.approx(10.0 - MARGIN + DYING_SECONDS, abs=0.01)


@pytest.mark.parametrize("how", ["lost", "closed"])
def test_a_lost_claim_and_a_closed_worker_end_it_and_start_nothing_more(stage: Stage, how: str) -> None:
    def body() -> None:
        stage.start()
        stage.wait(1.5)
        stage.table.lost(stage.held) if how == "lost" else stage.table.close()
        stage.wait(1.0)
        assert not stage.jobs.live()
        stage.jobs.start("9-0", JobSpec(command_of("t#2", Shell(1, 1.0))))

    stage.play(body, seconds=20.0)

    why, refusal = {
        "lost": (CLAIM_LOST, "its claim is lost"),
        "closed": (WORKER_CLOSED, "this worker closes"),
    }[how]
    assert stage.ends == [("killed", None, 9, why), ("not_started", None, None, refusal)]
    assert max(stage.times) == pytest.approx(1.5 + DYING_SECONDS, abs=0.01)


def test_a_job_that_comes_to_the_guard_too_late_does_not_even_begin(stage: Stage) -> None:
    def body() -> None:
        stage.wait(LEASE - MARGIN)
        stage.start()

    stage.play(body, seconds=20.0)

    assert stage.ends == [("not_started", None, None, "the lease of its claim is about to be over")]
    assert stage.times == []


def test_a_command_that_is_no_scripted_one_is_not_run(stage: Stage) -> None:
    stage.play(lambda: stage.jobs.start("3-0", JobSpec("rm -rf /")), seconds=5.0)

    assert stage.ends == [("not_started", None, None, NOT_SCRIPTED)]


def test_each_claim_has_its_own_jobs_the_same_each_time(stage: Stage) -> None:
    assert stage.table.of(stage.held) is stage.jobs
