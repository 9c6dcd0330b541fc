"""Many seeds on any executor: each once, all of them in one verdict, and nothing lost with what is killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from random import SystemRandom
from typing import Any

import pytest
from msgspec.structs import replace

from invariants import Verdict
from noeta.chaos.profiles import SWEEP_FULL_SEEDS, SWEEP_REQUIRED
from noeta.chaos.schedule import Kind, from_json
from noeta.chaos.sim import sweep_plan, sweep_unit, sweep_words
from noeta.chaos.sim.executors import open_executor
from noeta.chaos.sim.replay import replay
from noeta.chaos.sim.scheduler import Activity, Scheduler
from noeta.chaos.sim.seeded import Strategy, run_seed
from noeta.chaos.sim.sweep import SweepStopped, record_path, sweep
from noeta.chaos.sim.sweep_found import Found
from noeta.chaos.sim.sweep_plan import Plan, Unit
from noeta.chaos.sim.sweep_record import Record
from noeta.chaos.sim.sweep_sums import Sums
from noeta.core.errors import BadInput
from noeta.core.runner import calls
from scripted_model.seeds import Stream
from tests.sim.sweep_process import chunks, recover_nothing

FEW = Plan(0, 7)


class AtOnce(Executor):
    """Runs what it is given where it is given; breaks after so many."""

    def __init__(self, breaks_after: int | None = None) -> None:
        self.units: list[Unit] = []
        self._left = breaks_after

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self._left is not None and len(self.units) == self._left:
            future.set_exception(BrokenProcessPool("a worker is gone"))
            return future
        self.units.append(args[0])
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Backwards(AtOnce):
    """Runs what it is given from the last to the first."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self._expected = units
        self._given: list[tuple[Future[Any], Callable[..., Any], Unit]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._given.append((future, fn, args[0]))
        if len(self._given) == self._expected:
            for one, call, unit in reversed(self._given):
                one.set_result(call(unit))
        return future


def record_lines(directory: Path, plan: Plan) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record_path(directory, plan).read_text().splitlines()]


# -- the plan and its units --------------------------------------------------------------------------------


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of two seeds, so that few seeds are many units."""
    monkeypatch.setattr(sweep_plan, "CHUNK_SEEDS_MAX", 2)


@pytest.mark.parametrize("last", [0, 1, 2, 24, 25, 49, 50, 51, 999])
def test_units_hold_every_seed_once(last: int) -> None:
    units = list(Plan(0, last).units())

    assert [seed for unit in units for seed in range(unit.first, unit.last + 1)] == list(range(last + 1))
    assert len(units) >= min(2, last + 1), "two self-checks at least, where there are two seeds"
    assert max(unit.last - unit.first for unit in units) < sweep_plan.CHUNK_SEEDS_MAX


@pytest.mark.parametrize(("first", "last"), [(5, 4), (-1, 4)])
def test_seeds_out_of_order_are_refused(first: int, last: int) -> None:
    with pytest.raises(BadInput, match=r"seeds: expected two whole numbers in order, from 0, found"):
        Plan(first, last)


def test_a_depth_below_one_is_refused() -> None:
    with pytest.raises(BadInput, match=r"pct_depth: expected at least 1, found 0"):
        Plan(0, 1, pct_depth=0)


# -- what it adds up to ------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_sweep_adds_up_what_its_seeds_are_one_by_one(tmp_path: Path, strategy: Strategy) -> None:
    plan = Plan(0, 7, strategy)
    single = [run_seed(seed, strategy=strategy) for seed in range(8)]

    found = sweep(plan, AtOnce(), directory=tmp_path)

    assert found.complete
    assert found.verdict is Verdict.VALID
    assert found.exit_code == 0
    assert found.sums.executions == 8
    assert found.distinct_traces == len({one.trace_hash for one in single})
    assert found.sums.tasks == sum(one.report.tasks for one in single)
    assert found.sums.activities == max(one.activities for one in single)
    assert found.sums.choices == max(one.choices for one in single)
    ranked = sorted(one.switches for one in single)
    assert found.sums.switches_spread() == (ranked[0], ranked[3], ranked[-1])
    strikes = [fault for one in single for fault in one.schedule.faults if fault.kind is not Kind.SKEW]
    assert sum(found.sums.strikes.values()) == len(strikes) > 0
    assert 0 < len(found.sums.kills) <= found.sums.strikes[Kind.KILL]
    for name in {name for one in single for name in one.situations}:
        assert found.sums.situations[name] == sum(one.situations[name] for one in single if name in one.situations)


@pytest.mark.usefixtures("small_units")
def test_the_order_in_which_units_finish_changes_nothing(tmp_path: Path) -> None:
    plan = Plan(0, 15)
    forwards = sweep(plan, AtOnce(), directory=tmp_path / "a")
    backwards = sweep(plan, Backwards(len(list(plan.units()))), directory=tmp_path / "b")

    assert forwards.trace_hash == backwards.trace_hash
    assert forwards.sums == backwards.sums


def test_other_seeds_have_another_hash(tmp_path: Path) -> None:
    assert (
        sweep(FEW, AtOnce(), directory=tmp_path).trace_hash
        != sweep(Plan(1, 8), AtOnce(), directory=tmp_path).trace_hash
    )


def test_what_was_decided_has_no_seed_and_no_clocks_in_it() -> None:
    result = run_seed(3)
    play = result.schedule.play
    assert play is not None
    strikes = tuple(fault for fault in result.schedule.faults if fault.kind is not Kind.SKEW)
    skewed = tuple(
        replace(fault, args={"seconds": 0.5}) if fault.kind is Kind.SKEW else fault for fault in result.schedule.faults
    )
    decisions = sweep_unit.decisions_hash(result.schedule)

    assert skewed != result.schedule.faults
    assert sweep_unit.decisions_hash(replace(result.schedule, seed="4", faults=skewed)) == decisions
    assert sweep_unit.decisions_hash(replace(result.schedule, faults=strikes[1:])) != decisions
    assert sweep_unit.decisions_hash(replace(result.schedule, play=replace(play, turns=play.turns[1:]))) != decisions


def test_too_many_excused_outcomes_leave_the_answer_unknown() -> None:
    def verdict(excused: int, **verdicts: int) -> Verdict:
        counts = {Verdict(name): count for name, count in verdicts.items()}
        return Found(
            FEW, sums=Sums(executions=8, tasks=100, excused=excused, verdicts=counts, strikes={Kind.KILL: 1})
        ).verdict

    assert verdict(5, valid=8) is Verdict.VALID
    assert verdict(6, valid=8) is Verdict.UNKNOWN
    assert verdict(0, valid=7, unknown=1) is Verdict.UNKNOWN
    assert verdict(6, valid=7, invalid=1) is Verdict.INVALID
    assert Found(FEW).verdict is Verdict.UNKNOWN


def test_a_sweep_that_struck_nothing_is_unknown() -> None:
    sums = Sums(executions=8, tasks=100, verdicts={Verdict.VALID: 8})

    assert Found(FEW, sums=sums).verdict is Verdict.UNKNOWN


def test_many_seeds_without_a_required_situation_are_unknown() -> None:
    shown = dict.fromkeys(SWEEP_REQUIRED, 1)

    def found(seeds: int, situations: dict[str, int]) -> Found:
        verdicts = {Verdict.VALID: seeds}
        sums = Sums(seeds, seeds, verdicts=verdicts, strikes={Kind.KILL: 1}, situations=situations)
        return Found(Plan(1, seeds), sums=sums)

    short = found(SWEEP_FULL_SEEDS, {**shown, "claim-adopted": 0})
    assert short.verdict is Verdict.UNKNOWN
    assert "required and never seen: claim-adopted" in list(sweep_words.distribution(short))
    assert found(SWEEP_FULL_SEEDS, shown).verdict is Verdict.VALID
    assert found(SWEEP_FULL_SEEDS - 1, {}).verdict is Verdict.VALID


def test_a_sweep_of_priorities_states_its_chance_of_missing(tmp_path: Path) -> None:
    pct, random = (sweep(Plan(0, 3, strategy), AtOnce(), directory=tmp_path) for strategy in reversed(Strategy))

    n, k = pct.sums.activities, pct.sums.choices
    assert pct.chance_of_missing == pytest.approx((1 - 1 / (n * k**2)) ** 4)
    assert random.chance_of_missing is None


# -- failures ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("small_units")
def test_a_failure_is_on_disk_before_the_sweep_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "recover_call", recover_nothing)
    kept: list[tuple[int, int]] = []

    def progress(found: Found) -> None:
        kept.append((found.sums.bad, len(list(tmp_path.glob("invalid-random-*.json")))))

    found = sweep(Plan(0, 79), AtOnce(), directory=tmp_path, progress=progress)

    assert found.verdict is Verdict.INVALID
    assert found.exit_code == 1
    assert found.sums.convicted["effect-at-most-once"] > 0
    assert kept[-1][0] > 0
    assert all(bad == files for bad, files in kept)
    seed = found.bad[0].seed
    again = replay(from_json((tmp_path / f"invalid-random-{seed}.json").read_text()))
    assert again.trace_hash == run_seed(seed).trace_hash
    assert again.verdict is Verdict.INVALID
    told = list(sweep_words.lines(found, tmp_path))
    assert f"seed {seed}: invalid" in told
    assert f"    reproduce: noeta sim --seed {seed} --trace" in told
    assert told[-1].startswith(f"invalid: {80 - found.sums.bad} of 80 seeds from 0 to 79")


def plant_real_randomness(patch: pytest.MonkeyPatch) -> None:
    """Every wait that ends by time takes as long as the machine likes."""
    block = Scheduler.block

    def loose(self: Scheduler, me: Activity, waits: Any, timeout: float | None) -> None:
        block(self, me, waits, None if timeout is None else timeout + SystemRandom().random() / 100)

    patch.setattr(Scheduler, "block", loose)


@pytest.mark.usefixtures("small_units")
def test_a_simulator_that_does_not_repeat_is_a_harness_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_real_randomness(monkeypatch)

    found = sweep(Plan(0, 19), AtOnce(), directory=tmp_path)

    assert found.exit_code == 3
    what, first, again = found.troubles[0].lines
    assert what.startswith("line ")
    assert first.removeprefix("first: ") != again.removeprefix("again: ")
    seed = found.troubles[0].seed
    assert (tmp_path / f"differs-random-{seed}.json").exists()
    assert f"HARNESS ERROR: seed {seed} {found.troubles[0].what}" in list(sweep_words.lines(found, tmp_path))


@pytest.mark.slow
def test_every_seed_can_be_run_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = sweep(Plan(0, 7, verify=True), AtOnce(), directory=tmp_path)
    plant_real_randomness(monkeypatch)
    planted = sweep(Plan(0, 29, verify=True), AtOnce(), directory=tmp_path)

    assert (sound.repeated, sound.troubled, sound.exit_code) == (8, 0, 0)
    assert planted.exit_code == 3
    again = [one.seed for one in planted.troubles if one.what == "is another execution when run again"]
    assert len(again) == len(set(again)) > len(list(Plan(0, 29).units())), "more than the sample was checked"


def test_two_seeds_at_least_are_repeated_from_their_schedules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replayed: list[str] = []

    def counted(schedule: Any, **options: Any) -> Any:
        replayed.append(schedule.seed)
        return replay(schedule, **options)

    monkeypatch.setattr(sweep_unit, "replay", counted)

    found = sweep(FEW, AtOnce(), directory=tmp_path)

    assert len(set(replayed)) == found.repeated == 2


def test_a_seed_that_crashes_the_simulator_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crashing(seed: int, **options: Any) -> Any:
        if seed == 5:
            raise ZeroDivisionError("planted")
        return run_seed(seed, **options)

    monkeypatch.setattr(sweep_unit, "run_seed", crashing)

    found = sweep(FEW, AtOnce(), directory=tmp_path)

    assert found.complete
    assert found.sums.executions == 7
    assert found.exit_code == 3
    assert [(one.seed, one.lines[-1]) for one in found.troubles] == [(5, "ZeroDivisionError: planted")]


# -- the record --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_units")
def test_a_sweep_whose_executor_breaks_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = sweep(FEW, AtOnce(), directory=tmp_path / "whole")
    with pytest.raises(SweepStopped, match=r"was killed .*4 of 8 seeds are recorded, and the same command goes on"):
        sweep(FEW, AtOnce(breaks_after=2), directory=tmp_path)
    rest = AtOnce()

    found = sweep(FEW, rest, directory=tmp_path)

    assert [unit.first for unit in rest.units] == [4, 6]
    assert found.began == "resumed"
    assert (found.ran, found.done) == (4, 8)
    assert found.trace_hash == whole.trace_hash
    assert found.sums == whole.sums
    assert sorted(chunks(tmp_path, FEW)) == [0, 2, 4, 6]
    assert record_lines(tmp_path, FEW)[-1]["trace_hash"] == whole.trace_hash


def test_an_executor_that_is_broken_already_is_told_too(tmp_path: Path) -> None:
    class Broken(Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            raise BrokenExecutor("gone")

    with pytest.raises(SweepStopped, match=r"0 of 8 seeds are recorded"):
        sweep(FEW, Broken(), directory=tmp_path)


def stopped_after_one(directory: Path, plan: Plan = FEW) -> Path:
    with pytest.raises(SweepStopped):
        sweep(plan, AtOnce(breaks_after=1), directory=directory)
    return record_path(directory, plan)


def test_a_torn_last_line_is_passed_over(tmp_path: Path) -> None:
    path = stopped_after_one(tmp_path)
    text = path.read_bytes()
    path.write_bytes(text[:-40])
    rest = AtOnce()

    found = sweep(FEW, rest, directory=tmp_path)

    assert [unit.first for unit in rest.units] == [0, 4], "what was torn runs again"
    assert found.began == "resumed"
    assert found.trace_hash == sweep(FEW, AtOnce(), directory=tmp_path / "whole").trace_hash


def test_a_record_of_other_code_is_started_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_after_one(tmp_path)
    for module in (sweep_plan, sweep_unit):
        monkeypatch.setattr(module, "code_fingerprint", lambda: "other")
    rest = AtOnce()

    found = sweep(FEW, rest, directory=tmp_path)

    assert found.began == "started over: the record is of other code"
    assert len(rest.units) == 2
    assert record_lines(tmp_path, FEW)[0]["code"] == "other"


@pytest.mark.parametrize(
    ("plan", "fresh", "why"),
    [
        (Plan(0, 7, verify=True), False, "the record is of other options"),
        (FEW, True, "as asked"),
    ],
)
def test_a_record_that_is_not_wanted_is_started_over(tmp_path: Path, plan: Plan, fresh: bool, why: str) -> None:
    stopped_after_one(tmp_path)
    rest = AtOnce()

    found = sweep(plan, rest, directory=tmp_path, fresh=fresh)

    assert found.began == f"started over: {why}"
    assert len(rest.units) == 2


def test_a_complete_sweep_is_run_again_when_it_is_asked_for_again(tmp_path: Path) -> None:
    first = sweep(FEW, AtOnce(), directory=tmp_path)
    again = sweep(FEW, AtOnce(), directory=tmp_path)

    assert first.began == "new"
    assert again.began == "started over: the record is complete"
    assert again.ran == 8
    assert again.trace_hash == first.trace_hash


def test_two_processes_do_not_run_one_sweep(tmp_path: Path) -> None:
    held = Record(record_path(tmp_path, FEW), sweep_plan.Header.of(FEW))
    with pytest.raises(BadInput, match="found another process running this sweep"):
        sweep(FEW, AtOnce(), directory=tmp_path)
    held.close()

    assert sweep(FEW, AtOnce(), directory=tmp_path).complete


def test_a_process_with_other_code_runs_no_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_unit, "code_fingerprint", lambda: "other")

    with pytest.raises(SweepStopped, match="other source files"):
        sweep(FEW, AtOnce(), directory=tmp_path)


# -- the words ---------------------------------------------------------------------------------------------


def test_a_sweep_tells_what_it_tried_and_the_verdict_last(tmp_path: Path) -> None:
    plan = Plan(0, 7, Strategy.PCT)
    stopped_after_one(tmp_path, plan)
    shown: list[str] = []

    found = sweep(plan, AtOnce(), directory=tmp_path, progress=lambda found: shown.append(sweep_words.so_far(found)))
    told = list(sweep_words.lines(found, tmp_path))

    assert shown[0] == "4 of 8 seeds, 0 not valid, 0 a minute"
    assert shown[-1].startswith("8 of 8 seeds, 0 not valid, ")
    assert told[0] == "record: resumed, 4 seeds were done before"
    assert "distinct traces: 8 of 8 (100.0%)" in told
    assert any(line.startswith(f"pct: at most {found.sums.activities} activities and ") for line in told)
    assert told[-1].startswith("valid: 8 of 8 seeds from 0 to 7 (pct), " if found.sums.excused else "valid: 8 of 8")
    assert told[-1].endswith(f"traces {found.trace_hash}")
    assert sweep_words.reproduce(found, 5) == "noeta sim --seed 5 --strategy pct --trace"


# -- executors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "field"),
    [(("threads", 2), "executor"), (("processes", 0), "jobs"), (("processes", 2, "tcp://somewhere:1"), "address")],
)
def test_an_executor_that_there_is_not_is_refused(arguments: tuple[Any, ...], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        open_executor(*arguments)

    assert refused.value.field == field


def test_draws_of_the_self_check_are_by_name() -> None:
    assert len({Stream(first, "self-check").below(25) for first in range(0, 1000, 25)}) > 5
