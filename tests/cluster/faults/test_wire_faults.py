"""Connections of real workers are cut around a commit: each kind fires, says what became of it, and heals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from invariants.evidence import Answer, Verb
from noeta.chaos.evidence_dir import CUTS
from noeta.chaos.nemesis import FaultLine
from noeta.chaos.proxy import CutLine, Outcome, read_cuts
from noeta.chaos.schedule import WIRE_KINDS, AtPoint, Fault, Kind
from tests.cluster.faults.stage import Stage, stage, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def scene(tmp_path: Path, pg_schema: tuple[str, str]) -> Iterator[Stage]:
    dsn, schema = pg_schema
    with stage(tmp_path, dsn, schema, wired=True) as ready:
        yield ready


def cuts_of(scene: Stage) -> tuple[CutLine, ...]:
    return read_cuts(scene.config.run_dir / CUTS)


def line_of(scene: Stage, fault: str) -> FaultLine | None:
    return next((line for line in scene.lines if line.fault == fault), None)


@pytest.mark.parametrize(
    ("kind", "outcome"), [(Kind.CUT_BEFORE_COMMIT, Outcome.NOT_LANDED), (Kind.CUT_AFTER_COMMIT, Outcome.LANDED)]
)
def test_an_append_is_cut_as_its_kind_says(scene: Stage, kind: Kind, outcome: Outcome) -> None:
    before = scene.worker("w1")
    with scene.nemesis(Fault("c", kind, "w1", AtPoint("append.sent", 2, "w1"))) as nemesis:
        wait_until("it has struck", lambda: nemesis.result().effective.get(kind) == 1)
        result = nemesis.stop_and_heal()
    (cut,) = cuts_of(scene)
    line = line_of(scene, "c")

    assert (cut.fault, cut.kind, cut.process, cut.verb, cut.outcome) == ("c", kind, "w1#1", "append", outcome)
    assert line is not None
    assert (line.at, line.process, line.point, line.effective) == (cut.at, "w1#1", "append.sent", True)
    assert line.ended_at is not None
    assert (line.facts["became"], {held.task for held in line.held}) == (outcome, {cut.facts["task"]})
    assert scene.worker("w1") is before
    assert before.is_running
    assert not result.not_healed
    assert (result.fired, result.effective_kills) == ({kind: 1}, 0)
    task, epochs = cut.facts["task"], {held.epoch for held in line.held}
    unknown = [
        one
        for one in scene.attempts(before)
        if one.verb is Verb.APPEND and one.task == task and one.epoch in epochs and one.answer is Answer.UNKNOWN
    ]
    (attempt,) = unknown
    found = [(entry.seq, entry.epoch) for entry in scene.store.read(task).entries]
    assert ((attempt.first_seq, attempt.epoch) in found) == (outcome is Outcome.LANDED)


def test_every_worker_goes_on_after_many_cuts_of_any_commit(scene: Stage) -> None:
    kinds = sorted(WIRE_KINDS)
    faults = [
        Fault(f"c{number}", kinds[number % 2], "*", AtPoint("commit.sent", 3, None, 0.1 * number))
        for number in range(12)
    ]
    with scene.nemesis(*faults) as nemesis:
        wait_until("all have struck", lambda: sum(nemesis.result().fired.values()) == len(faults))
        result = nemesis.stop_and_heal()

    assert not result.not_healed
    assert not result.unfired
    assert {cut.fault for cut in cuts_of(scene)} == {fault.id for fault in faults}
    assert {line.facts["became"] for line in scene.lines} <= set(Outcome)
    assert all(line.ended_at is not None for line in scene.lines)


def test_a_cut_that_nobody_comes_to_is_told_as_unfired(scene: Stage) -> None:
    fault = Fault("c", Kind.CUT_AFTER_COMMIT, "w1", AtPoint("append.sent", 1, "w1", where={"task": "nobody's"}))
    with scene.nemesis(fault) as nemesis:
        scene.wait_until_at_work()
        result = nemesis.stop_and_heal()

    assert set(result.unfired) == {"c"}
    assert cuts_of(scene) == ()


def test_without_a_wire_cuts_are_refused_by_name(tmp_path: Path, pg_schema: tuple[str, str]) -> None:
    fault = Fault("c", Kind.CUT_AFTER_COMMIT, "w1", AtPoint("append.sent", 1, "w1"))
    with stage(tmp_path, *pg_schema) as scene, scene.nemesis(fault) as nemesis:
        result = nemesis.stop_and_heal()

    assert result.refused == {"cut_after_commit": "the workers' connections go directly to the store"}
    assert not result.unfired


def test_a_stopped_worker_holds_up_nobody_on_the_wire(scene: Stage) -> None:
    """SIGSTOP in the midst of its work: its connections stay open at the proxy, and the others go on."""
    fault = Fault("p", Kind.PAUSE, "w1", AtPoint("append.before", 1, "w1"), {"seconds": 1.5, "seconds_max": 15.0})
    with scene.nemesis(fault) as nemesis:
        wait_until("it was taken over", lambda: nemesis.result().effective_pauses == 1)
        result = nemesis.stop_and_heal()

    assert not result.not_healed
    assert all(scene.worker(name).is_running for name in scene.config.worker_names)
