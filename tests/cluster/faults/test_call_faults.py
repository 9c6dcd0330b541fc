"""Each kind of spoiled store call fires in a real worker, is told apart in the record, and ends nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from invariants.evidence import Answer, Verb
from noeta.chaos.nemesis import FaultLine
from noeta.chaos.schedule import AtPoint, Fault, Kind
from tests.cluster.faults.stage import Stage, stage, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def scene(tmp_path: Path, pg_schema: tuple[str, str]) -> Iterator[Stage]:
    dsn, schema = pg_schema
    with stage(tmp_path, dsn, schema) as ready:
        yield ready


def line_of(scene: Stage, fault: str) -> FaultLine | None:
    return next((line for line in scene.lines if line.fault == fault), None)


@pytest.mark.parametrize(
    ("kind", "args", "answer", "landed"),
    [
        (Kind.STORE_UNAVAILABLE, {}, Answer.UNAVAILABLE, False),
        (Kind.UNKNOWN_LOST, {}, Answer.UNKNOWN, False),
        (Kind.UNKNOWN_LANDED, {}, Answer.UNKNOWN, True),
        (Kind.UNKNOWN_LATER, {"seconds": 0.2}, Answer.UNKNOWN, True),
        (Kind.SLOW, {"seconds": 0.2}, Answer.OK, True),
    ],
)
def test_an_append_goes_wrong_as_its_kind_says(
    scene: Stage, kind: Kind, args: dict[str, float | str], answer: Answer, landed: bool
) -> None:
    before = scene.worker("w1")
    with scene.nemesis(Fault("c", kind, "w1", AtPoint("append.before", 2, "w1"), args)) as nemesis:
        wait_until("the call has come to its end", lambda: nemesis.result().effective.get(kind) == 1)
        result = nemesis.stop_and_heal()
    line = line_of(scene, "c")

    assert line is not None
    assert (line.kind, line.process, line.point, line.effective) == (kind, "w1#1", "append.before", True)
    assert line.ended_at is not None
    task, first = line.facts["task"], int(line.facts["seq"])
    assert {held.task for held in line.held} == {task}
    assert scene.worker("w1") is before
    assert before.is_running
    assert not result.not_healed
    assert (result.fired, result.effective_kills) == ({kind: 1}, 0)
    (epoch,) = {held.epoch for held in line.held}
    (attempt,) = [
        one
        for one in scene.attempts(before)
        if one.verb is Verb.APPEND and (one.task, one.first_seq, one.epoch) == (task, first, epoch) and one.answer
    ]
    assert attempt.answer is answer
    found = [entry for entry in scene.store.read(task, first - 1).entries if entry.epoch == epoch]
    assert (found[:1] != [] and found[0].seq == first) == landed


def test_a_spoiled_renewal_hits_every_claim_of_its_process(scene: Stage) -> None:
    fault = Fault("c", Kind.SLOW, "w2", AtPoint("renew.before", 1, "w2"), {"seconds": 1.5})
    with scene.nemesis(fault) as nemesis:
        wait_until("the renewal was late", lambda: nemesis.result().effective.get(Kind.SLOW) == 1)
        nemesis.stop_and_heal()
    line = line_of(scene, "c")

    assert line is not None
    assert len({held.task for held in line.held}) > 1
    renewals = [one for one in scene.attempts(scene.worker("w2")) if one.verb is Verb.RENEW]
    assert any(one.answer is Answer.CONFLICT for one in renewals), "no claim was lost to a late renewal"
