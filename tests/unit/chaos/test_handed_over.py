"""A simulated execution becomes the plan of a storm: what real processes can do of it, and names for the rest."""

from __future__ import annotations

import pytest

from noeta.chaos.handed_over import hand_over
from noeta.chaos.schedule import CLIENT, After, AtPoint, Fault, Kind, Play, Schedule, check, from_json, to_json
from noeta.chaos.sim.cases import CASES
from noeta.core.errors import BadInput

CASE = CASES["slow"]
PLAY = Play(CASE.name, 2, CASE.tasks, CASE.messages)


def schedule(*faults: Fault) -> Schedule:
    return Schedule("7", faults, play=PLAY)


def at(kind: Kind, point: str, target: str = "w1", **args: float | str) -> Fault:
    return Fault(f"{kind}-{point}", kind, target, AtPoint(point, 2, target, incarnation=1), args)


KILL = at(Kind.KILL, "append.before", respawn_seconds=0.0)


def test_a_fault_keeps_its_logical_anchor_and_its_spans_fit_the_lease_of_the_storm() -> None:
    pause = at(Kind.PAUSE, "tool.before_journal", seconds=25.0, seconds_max=25.0, spare="yes")

    handed = hand_over(schedule(KILL, pause), lease_seconds=1.0)

    kill, frozen = handed.schedule.faults
    assert kill.anchor == KILL.anchor
    assert frozen.anchor == pause.anchor
    assert frozen.args == {"seconds": 2.5, "seconds_max": 8.0}
    assert (handed.workers, handed.refused) == (2, ())
    check(from_json(to_json(handed.schedule)))


def test_the_tasks_go_along_with_their_spans() -> None:
    handed = hand_over(schedule(KILL), lease_seconds=1.0)

    (task,) = handed.workload.tasks
    assert task.id == CASE.tasks[0].id
    assert task.script.think_seconds == CASE.tasks[0].script.think_seconds / 10
    assert handed.workload.lease_seconds == 1.0


def test_what_real_processes_cannot_do_is_named() -> None:
    faults = (
        at(Kind.KILL, "wait", respawn_seconds=0.0),
        at(Kind.TERMINATE, "append.before"),
        at(Kind.SAY, "append.after"),
        at(Kind.KILL, "post.before", CLIENT, respawn_seconds=0.0),
        Fault("skew", Kind.SKEW, "w1", After(0.0), {"seconds": -3600.0}),
    )

    handed = hand_over(schedule(*faults), lease_seconds=1.0)

    assert [fault.id for fault in handed.schedule.faults] == ["skew"]
    assert handed.schedule.faults[0].args == {"seconds": -3600.0}
    assert [id for id, _ in handed.refused] == [fault.id for fault in faults[:-1]]
    assert all(why for _, why in handed.refused)


@pytest.mark.parametrize("given", [Schedule("7", ()), Schedule("7", (), play=Play("app", app="shop:make"))])
def test_a_schedule_without_scripts_is_refused(given: Schedule) -> None:
    with pytest.raises(BadInput, match=r"schedule\.play"):
        hand_over(given, lease_seconds=1.0)
