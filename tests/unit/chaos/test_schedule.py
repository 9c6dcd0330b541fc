"""Schedules: the same seed gives the same plan anywhere, and a plan survives its own JSON."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from noeta.chaos.config import Config
from noeta.chaos.generate import CUT_POINTS, CUTS_PER_KIND, KILL_POINTS, PAUSE_POINTS, generate, quotas_for
from noeta.chaos.schedule import (
    DATABASE_KINDS,
    SIM_INSTEAD,
    WIRE_KINDS,
    WIRE_POINTS,
    After,
    AtPoint,
    Fault,
    Kind,
    Play,
    Quotas,
    Schedule,
    check,
    from_json,
    to_json,
)
from noeta.chaos.sim.cases import CASES
from noeta.chaos.sim.points import STORE_POINTS
from noeta.core.errors import BadInput


def config(seconds: float = 45.0, workers: int = 4) -> Config:
    return Config(
        seed="1",
        tasks=60,
        seconds=seconds,
        run_dir=Path("run"),
        schema="s",
        address="postgresql://x:secret@h/d",
        workers=workers,
    )


def test_a_seed_gives_the_same_schedule_under_any_hash_seed() -> None:
    program = (
        "import hashlib; from tests.unit.chaos.test_schedule import config\n"
        "from noeta.chaos.generate import generate; from noeta.chaos.schedule import to_json\n"
        "print(hashlib.sha256(to_json(generate(7, config())).encode()).hexdigest())"
    )
    here = hashlib.sha256(to_json(generate(7, config())).encode()).hexdigest()

    found = set()
    for hash_seed in ("0", "1", "random"):
        asked = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(asked.stdout.strip())

    assert found == {here}


def test_a_known_seed_keeps_its_plan() -> None:
    """If this fails, every seed that somebody wrote down means another storm now: say so in the changelog."""
    schedule = generate("golden", config())
    first = next(fault for fault in schedule.faults if fault.id == "kill-001")

    assert (first.id, first.target, first.anchor) == ("kill-001", GOLDEN_TARGET, After(GOLDEN_SECONDS))
    assert len(schedule.faults) == 63


GOLDEN_TARGET, GOLDEN_SECONDS = "w4", 1.495


def test_other_seeds_give_other_schedules() -> None:
    assert len({to_json(generate(seed, config())) for seed in range(20)}) == 20


@pytest.mark.parametrize("seed", range(5))
def test_json_is_byte_stable_and_reads_back_as_it_was(seed: int) -> None:
    schedule = generate(seed, config())
    text = to_json(schedule)

    assert from_json(text) == schedule
    assert to_json(from_json(text)) == text


@pytest.mark.parametrize("seconds", [2.0, 10.0, 45.0, 180.0])
@pytest.mark.parametrize("seed", range(5))
def test_every_kind_is_planned_in_a_storm_of_any_length(seed: int, seconds: float) -> None:
    schedule = generate(seed, config(seconds))

    always = {Kind.KILL, Kind.KILL_ALL, Kind.PAUSE, Kind.TERMINATE, Kind.SKEW}
    assert schedule.kinds() >= always | DATABASE_KINDS | WIRE_KINDS
    assert all(fault.anchor.seconds <= seconds for fault in schedule.faults if isinstance(fault.anchor, After))


def test_a_full_storm_plans_more_than_its_quotas_and_has_spares() -> None:
    schedule = generate(3, config())
    planned = Counter(fault.kind for fault in schedule.faults)
    spare = Counter(fault.kind for fault in schedule.spares)

    assert schedule.quotas == Quotas(kills=20, kill_alls=2, pauses=5) == quotas_for(45.0) == quotas_for(600.0)
    assert planned[Kind.KILL] + planned[Kind.RESTART_SAME_NAME] > 20
    assert planned[Kind.RESTART_SAME_NAME] >= 3
    assert planned[Kind.KILL_ALL] >= 2
    assert planned[Kind.PAUSE] > 5
    assert spare[Kind.KILL] >= 20 and spare[Kind.KILL_ALL] >= 2 and spare[Kind.PAUSE] >= 5


def test_the_first_aimed_pause_stands_before_an_append() -> None:
    for seed in range(20):
        pauses = [fault for fault in generate(seed, config()).faults if fault.kind is Kind.PAUSE]
        aimed = [fault.anchor.point for fault in pauses if isinstance(fault.anchor, AtPoint)]
        assert aimed[0] == "append.before"


def test_faults_aim_at_points_that_workers_have() -> None:
    points = {
        fault.anchor.point
        for seed in range(30)
        for fault in generate(seed, config()).faults
        if isinstance(fault.anchor, AtPoint)
    }

    assert points <= KILL_POINTS.keys() | PAUSE_POINTS.keys() | CUT_POINTS.keys()
    assert CUT_POINTS.keys() <= WIRE_POINTS
    assert {"tool.before_journal", "tool.after_journal", "append.before", "append.after", "recover.call"} <= points


def test_processes_are_killed_before_and_after_each_store_call_of_a_worker() -> None:
    calls = ("claim", "read", "append", "renew", "release", "requeue_stale", "fire_due_timers")
    wanted = {f"{verb}.{side}" for verb in calls for side in ("before", "after")}
    aimed = {
        fault.anchor.point
        for seed in range(200)
        for fault in generate(seed, config()).faults
        if fault.kind is Kind.KILL and isinstance(fault.anchor, AtPoint)
    }

    assert wanted <= set(STORE_POINTS)
    assert wanted <= aimed
    # Mostly in mid step: what is struck elsewhere need not hurt.
    idle = ("claim.before", "read.before", "release.", "requeue_stale.", "fire_due_timers.")
    assert (
        sum(weight for point, weight in KILL_POINTS.items() if point.startswith(idle)) < sum(KILL_POINTS.values()) / 5
    )


def test_connections_are_cut_before_and_after_commits_and_first_at_an_append() -> None:
    for seed in range(20):
        cuts = [fault for fault in generate(seed, config()).faults if fault.kind in WIRE_KINDS]
        points = [fault.anchor.point for fault in cuts if isinstance(fault.anchor, AtPoint)]

        assert Counter(fault.kind for fault in cuts) == dict.fromkeys(WIRE_KINDS, CUTS_PER_KIND)
        assert {cuts[0].kind, cuts[1].kind} == WIRE_KINDS
        assert points[:2] == ["append.sent"] * 2


def test_cuts_change_no_other_draw() -> None:
    """Every family of faults draws from a stream of its own: without its cuts a plan is that of before."""
    schedule = generate("golden", config())
    others = schedule.without(WIRE_KINDS)

    assert len(others.faults) == 51
    assert hashlib.sha256(to_json(others).encode()).hexdigest() == GOLDEN_WITHOUT_CUTS


GOLDEN_WITHOUT_CUTS = "eebee7c1c024db4faf57f6a8551c6f59fd787f9c88a27334455eb416a3bd0c09"


def test_the_simulator_has_no_wire_and_says_what_is_the_same_there() -> None:
    play = Play("t", tasks=CASES["slow"].tasks)
    for kind, instead in SIM_INSTEAD.items():
        with pytest.raises(BadInput, match=f"no wire for a {kind}: {instead} at"):
            check(Schedule("1", (Fault("c", kind, "w1", AtPoint("append.sent", 1, "w1")),), play=play))


def test_half_the_workers_have_a_clock_that_is_off_both_ways() -> None:
    skews = [fault for fault in generate(1, config()).faults if fault.kind is Kind.SKEW]

    assert sorted(fault.seconds("seconds") for fault in skews) == [-2.0, 2.0]


def test_a_plan_can_lose_kinds() -> None:
    left = generate(1, config()).without(DATABASE_KINDS)

    assert not left.kinds() & DATABASE_KINDS
    assert left.quotas == generate(1, config()).quotas


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault("a", Kind.KILL, "w1", After(-1.0), {"respawn_seconds": 0}), "before the storm"),
        (Fault("a", Kind.KILL, "w1", After(1.0)), "respawn_seconds"),
        (Fault("a", Kind.KILL, "*", After(1.0), {"respawn_seconds": 0}), "names its worker"),
        (Fault("a", Kind.TERMINATE, "w1", AtPoint("append.before", 1, "w1")), "cannot be aimed"),
        (Fault("a", Kind.KILL, "w1", AtPoint("append.before", 0, "w1"), {"respawn_seconds": 0}), "counts from 1"),
        (Fault("a", Kind.KILL, "w2", AtPoint("append.before", 1, "w1"), {"respawn_seconds": 0}), "its anchor names"),
        (Fault("a/b", Kind.RESTART_SAME_NAME, "w1", After(1.0)), "no '/'"),
        (Fault("a", Kind.DB_KILL, "w1", After(1.0), {"seconds": 1}), "has the target 'server'"),
        (Fault("a", Kind.DB_RESTART, "server", After(1.0), {"seconds": 1, "mode": "smart"}), "fast or immediate"),
        (Fault("a", Kind.CUT_AFTER_COMMIT, "w1", After(1.0)), "<verb>.sent"),
        (Fault("a", Kind.CUT_BEFORE_COMMIT, "w1", AtPoint("append.before", 1, "w1")), "at <verb>.sent"),
        (Fault("a", Kind.CUT_BEFORE_COMMIT, "w1", AtPoint("read.sent", 1, "w1")), "at <verb>.sent"),
        (Fault("a", Kind.UNKNOWN_LOST, "w1", AtPoint("append.sent", 1, "w1")), "only that"),
        (
            Fault("a", Kind.CUT_BEFORE_COMMIT, "w1", AtPoint("append.sent", 1, "w1", where={"seq": "2"})),
            "only a task is known",
        ),
        (Fault("a", Kind.PAUSE, "w1", After(1.0), {"seconds": "x", "seconds_max": 1}), "number of seconds"),
    ],
)
def test_a_plan_that_cannot_be_struck_is_refused(fault: Fault, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        check(Schedule("1", (fault,)))


def test_a_damaged_or_foreign_schedule_is_refused() -> None:
    with pytest.raises(BadInput):
        from_json("{")
    with pytest.raises(BadInput):
        from_json(to_json(generate(1, config())).replace('"kill"', '"hill"'))
    with pytest.raises(BadInput, match=r"schedule\.format"):
        from_json(to_json(Schedule("1", (), format=1)))


def test_a_config_never_shows_its_password() -> None:
    assert "secret" not in repr(config())
    assert "secret" not in str(config().facts())


@pytest.mark.parametrize(("field", "value"), [("seconds", 0.0), ("workers", 1)])
def test_a_config_out_of_bounds_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(BadInput, match=field):
        config(**{field: value})  # type: ignore[arg-type]
