"""Each kind of process fault fires, hurts, and is healed: real workers, real signals, a real Postgres."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from invariants.evidence import Answer, Verb
from noeta.chaos.schedule import After, AtPoint, Fault, Kind, Quotas
from scripted_model.journal import read_journal
from tests.cluster.faults.stage import Stage, stage, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def scene(tmp_path: Path, pg_schema: tuple[str, str]) -> Iterator[Stage]:
    dsn, schema = pg_schema
    with stage(tmp_path, dsn, schema) as ready:
        yield ready


def test_kill_fires_hurts_and_heals(scene: Stage) -> None:
    before = scene.worker("w1")
    with scene.nemesis(Fault("k", Kind.KILL, "w1", After(0.0), {"respawn_seconds": 0.3})) as nemesis:
        wait_until("the kill hurt", lambda: nemesis.result().effective_kills == 1)
        result = nemesis.stop_and_heal()
    line = next(line for line in scene.lines if line.fault == "k")
    after = scene.worker("w1")

    assert before.child.returncode == -signal.SIGKILL
    assert (line.kind, line.process, line.effective) == ("kill", "w1#1", True)
    assert line.held and line.taken_over and set(line.taken_over) <= set(line.held)
    assert line.ended_at is not None and line.ended_at - line.at >= 300_000
    assert after.process == "w1#2" and scene.cluster.answers(after) > 0
    assert not result.not_healed and not result.crashes and result.takeovers >= 1


def test_kill_all_leaves_nobody_alive_and_everybody_comes_back(scene: Stage) -> None:
    before = dict(scene.cluster.workers)
    with scene.nemesis(
        Fault("ka", Kind.KILL_ALL, "*", After(0.0), {"respawn_seconds": 0.2}), quotas=Quotas(kill_alls=1)
    ) as nemesis:
        wait_until("the kill hurt", lambda: nemesis.quotas_met)
        result = nemesis.stop_and_heal()
    lines = [line for line in scene.lines if line.kind == "kill_all"]

    assert {line.process for line in lines} == {"w1#1", "w2#1", "w3#1"}
    assert all(worker.child.returncode == -signal.SIGKILL for worker in before.values())
    # All were dead before the first came back.
    assert max(line.at for line in lines) < min(line.ended_at or 0 for line in lines)
    assert result.kill_alls == 1 and result.fired == {"kill_all": 1} and result.effective_kills == 0
    assert not result.not_healed
    assert sorted(scene.cluster.alive()) == ["w1", "w2", "w3"]


def test_pause_lasts_beyond_the_takeover_and_the_same_process_goes_on(scene: Stage) -> None:
    before = scene.worker("w1")
    fault = Fault("p", Kind.PAUSE, "w1", After(0.0), {"seconds": 1.5, "seconds_max": 15.0})
    with scene.nemesis(fault) as nemesis:
        wait_until("it is stopped", lambda: before.is_stopped)
        wait_until("the pause hurt", lambda: nemesis.result().effective_pauses == 1)
        result = nemesis.stop_and_heal()
    line = next(line for line in scene.lines if line.fault == "p")

    assert line.effective and line.taken_over
    assert line.ended_at is not None and line.ended_at - line.at >= 1_500_000
    assert scene.worker("w1") is before and before.is_running and not before.is_stopped
    assert scene.cluster.answers(before) > 0 and not result.not_healed


@pytest.mark.holds("writer/frozen")
def test_a_worker_paused_right_before_its_append_is_refused(scene: Stage) -> None:
    """The zombie: it wakes up after the takeover and sends what it was about to send."""
    before = scene.worker("w1")
    fault = Fault("p", Kind.PAUSE, "w1", AtPoint("append.before", 2, "w1"), {"seconds": 1.5, "seconds_max": 15.0})
    with scene.nemesis(fault) as nemesis:
        wait_until("the pause hurt", lambda: nemesis.result().effective_pauses == 1)
        nemesis.stop_and_heal()
    line = next(line for line in scene.lines if line.fault == "p")
    expected = (line.facts["task"], int(line.facts["seq"]))

    def refused() -> set[tuple[str, int]]:
        """Task and first seq of each append of the resumed process that was refused."""
        return {
            (attempt.task, attempt.first_seq)
            for attempt in scene.attempts(before)
            if attempt.verb is Verb.APPEND and attempt.answer is Answer.CONFLICT
        }

    wait_until("the very append before which it stopped is refused", lambda: expected in refused())
    assert line.point == "append.before" and line.process == "w1#1"
    assert expected[0] in {held.task for held in line.held}


def test_a_worker_stopped_with_the_lock_of_the_store_hits_everybody_and_is_not_waited_for(scene: Stage) -> None:
    """Nobody can take over while it is stopped, and what the others hold lapses for its sake."""
    before = scene.worker("w1")
    fault = Fault("p", Kind.PAUSE, "w1", After(0.0), {"seconds": 0.4, "seconds_max": 60.0})
    with scene.nemesis(fault, keeps_out=lambda pid: pid == before.pid) as nemesis:
        wait_until("it goes on", lambda: any(line.fault == "p" and line.ended_at for line in scene.lines))
        nemesis.stop_and_heal()
    line = next(line for line in scene.lines if line.fault == "p")
    config = scene.config

    assert line.workers == tuple(loop for name in config.worker_names for loop in config.loops_of(name))
    assert len(line.held) > config.concurrency, "only its own claims are named"
    assert "keeps_out" in line.facts
    assert before.is_running and not before.is_stopped


def test_a_pause_that_keeps_the_nemesis_itself_waiting_ends_all_the_same(scene: Stage) -> None:
    """A store whose wait for its lock has no bound: whoever looks waits for the very process that is stopped."""
    before = scene.worker("w1")
    waited: list[int] = []

    def waits(pid: int) -> bool:
        waited.append(pid)
        wait_until("somebody lets it go on", lambda: not before.is_stopped)
        return False

    fault = Fault("p", Kind.PAUSE, "w1", After(0.0), {"seconds": 0.2, "seconds_max": 0.4})
    with scene.nemesis(fault, keeps_out=waits) as nemesis:
        wait_until("it goes on", lambda: any(line.fault == "p" and line.ended_at for line in scene.lines))
        result = nemesis.stop_and_heal()

    assert waited, "nobody looked"
    assert not result.not_healed
    assert before.is_running and not before.is_stopped


def test_a_spare_pause_that_would_keep_everybody_out_is_tried_again(scene: Stage) -> None:
    """A spare is there to hurt one worker: a stop in the middle of a commit hurts all of them, and none enough."""
    looks: list[int] = []

    def keeps_out(pid: int) -> bool:
        looks.append(pid)
        return len(looks) <= 3

    spares = tuple(
        Fault(f"p{n}", Kind.PAUSE, "w1", After(0.0), {"seconds": 1.5, "seconds_max": 15.0}) for n in range(9)
    )
    with scene.nemesis(spares=spares, quotas=Quotas(pauses=1), keeps_out=keeps_out) as nemesis:
        wait_until("a pause hurt", lambda: nemesis.quotas_met)
        nemesis.stop_and_heal()
    pauses = [line for line in scene.lines if line.kind == Kind.PAUSE]

    assert len(looks) > 3
    assert not any("keeps_out" in line.facts for line in pauses)
    assert any(line.effective for line in pauses)
    assert scene.worker("w1").is_running and not scene.worker("w1").is_stopped


@pytest.mark.parametrize("point", ["tool.before_journal", "tool.after_journal", "append.after"])
def test_a_worker_kills_itself_at_the_point_it_was_told(scene: Stage, point: str) -> None:
    before = scene.worker("w2")
    fault = Fault("k", Kind.KILL, "w2", AtPoint(point, 1, "w2"), {"respawn_seconds": 0.1})
    with scene.nemesis(fault) as nemesis:
        wait_until("the kill hurt", lambda: nemesis.result().effective_kills == 1)
        result = nemesis.stop_and_heal()
    line = next(line for line in scene.lines if line.fault == "k")

    assert before.child.returncode == -signal.SIGKILL
    assert line.point == point and line.process == "w2#1" and line.facts["task"] in {held.task for held in line.held}
    if point.startswith("tool."):
        tokens = {effect.token for effect in read_journal(scene.config.run_dir / "journal").effects}
        assert (line.facts["token"] in tokens) == (point == "tool.after_journal")
    assert not result.not_healed and result.fired == {"kill": 1}


def test_a_worker_is_killed_in_the_middle_of_recovery(scene: Stage) -> None:
    scene.load(6)
    faults = (
        Fault("first", Kind.KILL, "w1", AtPoint("tool.after_journal", 1, "w1"), {"respawn_seconds": 0.1}),
        Fault("again", Kind.KILL, "*", AtPoint("recover.call", 1), {"respawn_seconds": 0.1}),
    )
    with scene.nemesis(*faults) as nemesis:
        wait_until("both hurt", lambda: nemesis.result().effective_kills == 2)
        result = nemesis.stop_and_heal()
    again = [line for line in scene.lines if line.fault == "again"]

    assert len(again) == 1 and again[0].point == "recover.call"
    assert not result.not_healed


def test_terminate_gives_tasks_back_and_a_successor_begins(scene: Stage) -> None:
    before = scene.worker("w1")
    with scene.nemesis(Fault("t", Kind.TERMINATE, "w1", After(0.0))) as nemesis:
        wait_until("it ended", lambda: nemesis.result().effective.get("terminate") == 1)
        result = nemesis.stop_and_heal()
    released = [a for a in scene.attempts(before) if a.verb is Verb.RELEASE and a.answer is Answer.OK]

    assert before.child.returncode == 0
    assert released
    assert scene.worker("w1").process == "w1#2" and not result.not_healed


def test_a_process_of_the_same_name_starts_while_the_old_leases_run(scene: Stage) -> None:
    with scene.nemesis(Fault("s", Kind.RESTART_SAME_NAME, "w1", After(0.0))) as nemesis:
        wait_until("it hurt", lambda: nemesis.result().effective_kills == 1)
        result = nemesis.stop_and_heal()
    line = next(line for line in scene.lines if line.fault == "s")

    assert line.ended_at is not None and line.ended_at - line.at < 1_000_000
    assert line.held and result.fired == {"restart_same_name": 1} and not result.not_healed
    # The new process's claims are not laid at the old one's door.
    old = {(a.task, a.epoch) for a in scene.attempts(scene.cluster.all[0]) if a.verb is Verb.CLAIM}
    assert {(held.task, held.epoch) for held in line.held} <= old


def test_skew_sets_the_clock_off_and_heal_sets_it_right(scene: Stage) -> None:
    with scene.nemesis(Fault("sk", Kind.SKEW, "w2", After(0.0), {"seconds": -2.0})) as nemesis:
        wait_until("it fired", lambda: nemesis.result().fired.get("skew") == 1)
        line = scene.lines[0]
        wait_until("the worker's clock is off", lambda: offset(scene, "w2", since=line.at) < -1.5)
        wait_until("it was seen to be", lambda: nemesis.result().effective.get("skew") == 1)
        result = nemesis.stop_and_heal()
        ended = scene.lines[0].ended_at
        assert ended is not None
        scene.load(6)
        wait_until("the worker's clock is right", lambda: abs(offset(scene, "w2", since=ended)) < 0.5)

    assert result.effective == {"skew": 1} and not result.not_healed


def offset(scene: Stage, name: str, *, since: int) -> float:
    """How many seconds the worker's clock differs from the store's, at its newest append after an instant."""
    for attempt in reversed(scene.attempts(scene.worker(name))):
        if attempt.verb is Verb.APPEND and attempt.answer is Answer.OK and attempt.answer_seq:
            entry = scene.store.read(attempt.task, attempt.answer_seq - 1, limit=1).entries[0]
            if entry.at > since + 200_000:
                return (attempt.sent_at - entry.at) / 1_000_000
    return float("nan")


def test_a_storm_that_ends_in_mid_pause_resumes_and_hears_of_the_process(scene: Stage) -> None:
    before = scene.worker("w3")
    fault = Fault("p", Kind.PAUSE, "w3", After(0.0), {"seconds": 60.0, "seconds_max": 60.0})
    with scene.nemesis(fault) as nemesis:
        wait_until("it is stopped", lambda: before.is_stopped)
        answers = scene.cluster.answers(before)
        result = nemesis.stop_and_heal()

    assert not result.not_healed
    assert before.is_running and not before.is_stopped
    assert scene.cluster.answers(before) > answers


def test_a_worker_that_crashes_is_told_and_one_killed_by_its_script_is_no_crash(scene: Stage) -> None:
    with scene.nemesis() as nemesis:
        scene.worker("w1").signal(signal.SIGKILL)  # as a scripted tool does: not by the nemesis
        scene.worker("w2").signal(signal.SIGABRT)
        wait_until("both are back", lambda: {"w1#2", "w2#2"} <= {w.process for w in scene.cluster.workers.values()})
        result = nemesis.stop_and_heal()

    assert result.fired == {"self_kill": 1, "crash": 1}
    assert result.effective_kills == 0
    assert len(result.crashes) == 1 and "w2#1 ended with exit code -6" in result.crashes[0]


def test_spares_strike_until_the_quotas_are_met(scene: Stage) -> None:
    spares = tuple(
        Fault(f"s{number}", Kind.KILL, f"w{number % 3 + 1}", After(0.0), {"respawn_seconds": 0.1})
        for number in range(9)
    )
    with scene.nemesis(spares=spares, quotas=Quotas(kills=3)) as nemesis:

        def is_met() -> bool:
            scene.keep_loaded()
            return nemesis.quotas_met

        wait_until("the quota is met", is_met)
        result = nemesis.stop_and_heal()

    assert 3 <= result.effective_kills <= 5
    assert not result.missing() and not result.not_healed


def test_what_never_struck_is_said_with_its_reason(scene: Stage) -> None:
    faults = (
        Fault("late", Kind.KILL, "w1", After(100.0), {"respawn_seconds": 0.1}),
        Fault("nowhere", Kind.KILL, "w1", AtPoint("no.such.point", 1, "w1"), {"respawn_seconds": 0.1}),
    )
    with scene.nemesis(*faults, quotas=Quotas(kills=1)) as nemesis:
        wait_until("it is armed", lambda: scene.cluster.control.orders("w1").aimed)
        result = nemesis.stop_and_heal()

    assert "before its time" in result.unfired["late"]
    assert "no.such.point" in result.unfired["nowhere"]
    assert not result.quotas_met and result.missing() == ("0 of 1 effective kills",)
    assert scene.cluster.control.orders("w1").aimed == ()
