"""Kept claims, cron tables, approvals and parks in the simulator: what each case is there for really happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from invariants import Verdict
from invariants.evidence import LogEntry, Verb
from noeta.chaos.profiles import RARE, SIM_REQUIRED, SWEEP_REQUIRED
from noeta.chaos.schedule import Kind
from noeta.chaos.sim import jobs as sim_jobs
from noeta.chaos.sim.background_scripts import BACKGROUND_CASES
from noeta.chaos.sim.cases import CASES
from noeta.chaos.sim.exhaustive import search
from noeta.chaos.sim.modes import MODES, OUTAGE_SECONDS
from noeta.chaos.sim.run import Execution
from noeta.chaos.sim.scheduler import WALL_START, SimProcess
from noeta.chaos.sim.scripts import LEASE_SECONDS, Case
from noeta.chaos.sim.shrink_scripts import edits, is_playable, renamed
from noeta.chaos.sim.strikes import Plan, Strike
from noeta.chaos.situations import SITUATIONS
from noeta.core.events import (
    ApprovalAsked,
    CronFired,
    Event,
    JobEnded,
    JobLost,
    JobStarted,
    TaskCompleted,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolStarted,
)
from noeta.core.ids import micros
from noeta.core.task import Status
from noeta.core.texts import ATTEMPT_PARKED
from noeta.core.wake import NEXT_GOAL, HumanResponseReceived
from scripted_model.script import Cron, StopCron, calls_of


def played(name: str, plan: Plan | None = None) -> Execution:
    execution = Execution(CASES[name]) if plan is None else Execution(CASES[name], plan)
    result = execution.run()
    assert result.verdict is Verdict.VALID, "\n".join(result.why())
    return execution


def events_of(execution: Execution, kind: type[Event]) -> list[LogEntry]:
    return [entry for entry in execution.log if isinstance(entry.event, kind)]


def shape(execution: Execution, *kinds: type[Event]) -> list[str]:
    return [type(entry.event).__name__ for entry in execution.log if isinstance(entry.event, kinds)]


def verbs(execution: Execution) -> list[Verb]:
    return [one.verb for one in execution._attempts() if one.verb in (Verb.CLAIM, Verb.RESUME) and one.epoch]


# -- undisturbed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kept-question", "kept-timer", "kept-event", "kept-child"])
def test_a_task_with_a_shell_waits_with_its_claim_kept_and_goes_on_under_the_same_epoch(name: str) -> None:
    execution = played(name)

    root = [entry for entry in execution.log if entry.task == name]
    assert {entry.epoch for entry in root} == {0, 1}
    assert any(row.kept for row in execution.server.samples)
    assert Verb.RESUME in verbs(execution)
    assert [entry.event.how for entry in events_of(execution, JobEnded)] == ["stopped"]  # type: ignore[union-attr]


def test_the_end_of_a_shell_wakes_the_task_that_rests_and_frees_its_claim() -> None:
    execution = played("job-wakes")

    assert shape(execution, TaskSuspended, JobStarted, JobEnded, TaskWoken) == [
        *("JobStarted", "TaskSuspended", "JobEnded", "TaskSuspended", "TaskWoken", "TaskSuspended")
    ]
    assert [entry.epoch for entry in events_of(execution, TaskSuspended)] == [1, 1, 2]


def test_a_task_that_ends_first_stops_its_shell_in_the_commit_of_its_end() -> None:
    execution = played("job-outlives")

    stopped, ended = events_of(execution, JobEnded)[0], events_of(execution, TaskCompleted)[0]
    assert (stopped.at, stopped.seq) == (ended.at, ended.seq - 1)
    assert {line.by for line in execution.cast.book.jobs} == {"shell", "grandchild"}


def test_a_cron_table_fires_once_a_minute_until_it_is_removed() -> None:
    execution = played("cron")

    (fired,) = events_of(execution, CronFired)
    assert isinstance(fired.event, CronFired)
    assert (fired.event.due_at % 60, fired.event.missed) == (0, 0)
    assert fired.at >= fired.event.due_at * 1e6
    last = events_of(execution, TaskSuspended)[-1].event
    assert isinstance(last, TaskSuspended)
    assert last.wake_on == HumanResponseReceived(NEXT_GOAL)


@pytest.mark.parametrize(("name", "starts", "source"), [("approve", 1, "ran"), ("deny", 0, "denied")])
def test_a_call_that_needs_approval_starts_when_a_person_says_so(name: str, starts: int, source: str) -> None:
    execution = played(name)

    assert len(events_of(execution, ApprovalAsked)) == 1
    assert len(events_of(execution, ToolStarted)) == starts == len(execution.cast.book.effects)
    (finished,) = events_of(execution, ToolFinished)
    assert isinstance(finished.event, ToolFinished)
    assert finished.event.source == source


def test_a_rewritten_call_runs_with_what_the_log_says() -> None:
    (started,) = events_of(played("rewrite"), ToolStarted)

    assert isinstance(started.event, ToolStarted)
    assert started.event.input == {"tag": "rewrite#1", "gate": "rewrite", "rewritten": True}


@pytest.mark.parametrize(("name", "parks"), [("park-and-type", 1), ("park-refused-by-gate", 1), ("park-retry-safe", 0)])
def test_a_task_is_parked_where_nobody_may_start_its_call_again(name: str, parks: int) -> None:
    execution = played(name)

    rests = [entry.event for entry in events_of(execution, TaskSuspended)]
    assert sum(isinstance(one, TaskSuspended) and one.reason == ATTEMPT_PARKED for one in rests) == parks
    assert len(events_of(execution, ToolStarted)) == 2 - parks
    assert len(events_of(execution, TaskCompleted)) == 1


# -- struck ----------------------------------------------------------------------------------------------------------


def at_nth(points: Mapping[int, Strike], point: str, when: Callable[[Execution], bool]) -> Plan:
    """These strikes, each at the n-th passing of a point at which this holds."""
    passed = 0

    def plan(execution: Execution, process: SimProcess, name: str, facts: Mapping[str, object]) -> None:
        nonlocal passed
        if name == point and process.slot != "client" and when(execution):
            passed += 1
            if passed in points:
                execution.strike(process, name, points[passed])

    return plan


def is_kept(execution: Execution) -> bool:
    return any(row.kept for row in execution.server.rows())


def test_a_worker_that_is_killed_with_a_kept_claim_takes_its_shell_along_and_its_successor_says_so() -> None:
    execution = played("kept-timer", at_nth({1: Strike(Kind.KILL)}, "resume.before", is_kept))

    (lost,) = events_of(execution, JobLost)
    assert lost.epoch == 2
    assert WALL_START + max(line.time for line in execution.cast.book.jobs) * 1e6 < lost.at
    assert execution.scheduler.processes[-1].incarnation == 2


def test_a_worker_that_is_frozen_with_a_kept_claim_comes_back_to_no_shell_and_writes_nothing() -> None:
    frozen = Strike(Kind.PAUSE, seconds=25.0, spare=True)
    execution = played("kept-timer", at_nth({1: frozen}, "resume.before", is_kept))

    assert len(events_of(execution, JobLost)) == 1
    assert not events_of(execution, JobEnded)
    assert {row.worker for row in execution.server.samples if row.worker} == {"w1", "w2"}


def test_a_worker_that_is_told_to_stop_with_a_kept_claim_gives_it_back_at_once() -> None:
    execution = played("kept-question", at_nth({1: Strike(Kind.TERMINATE)}, "claim.before", is_kept))

    (lost,) = events_of(execution, JobLost)
    assert WALL_START + max(line.time for line in execution.cast.book.jobs) * 1e6 < lost.at
    assert lost.at - WALL_START < micros(LEASE_SECONDS)  # nobody had to wait for the lease
    assert any(one.verb is Verb.RELEASE for one in execution._attempts())


def test_a_shell_is_not_started_by_a_worker_that_dies_between_its_record_and_its_start() -> None:
    execution = played("kept-timer", at_nth({1: Strike(Kind.KILL)}, "job.before_start", lambda execution: True))

    assert execution.cast.book.jobs == []
    assert len(events_of(execution, JobStarted)) == len(events_of(execution, JobLost)) == 1


@pytest.mark.parametrize("adopted", [False, True])
def test_a_table_that_was_due_several_times_fires_once_also_for_a_claim_that_was_adopted(adopted: bool) -> None:
    """Of a claim whose answer was lost, nobody knows at which time of the store's it was made."""

    def rests(execution: Execution) -> bool:
        return execution.server.row("cron-outage").status is Status.SUSPENDED

    def is_due_again(execution: Execution) -> bool:
        if execution.scheduler.now < micros(OUTAGE_SECONDS):
            return False
        row = execution.server.row("cron-outage")
        return row.last_seq == 13 and row.ready_at is not None

    away = at_nth({1: Strike(Kind.KILL, respawn=OUTAGE_SECONDS)}, "append.after", rests)
    lost = at_nth({1: Strike(Kind.UNKNOWN_LANDED)}, "claim.before", is_due_again)

    def plan(execution: Execution, process: SimProcess, name: str, facts: Mapping[str, object]) -> None:
        away(execution, process, name, facts)
        if adopted:
            lost(execution, process, name, facts)

    execution = played("cron-outage", plan)

    assert len(execution.struck) == 1 + adopted
    (fired,) = events_of(execution, CronFired)
    assert isinstance(fired.event, CronFired)
    assert fired.event.missed == 3


# -- the set ---------------------------------------------------------------------------------------------------------


def test_a_shell_that_outlives_its_worker_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim_jobs, "DYING_SECONDS", 30.0)

    found = search([CASES["kept-timer"]], [MODES["kill"]])

    assert found.bad
    assert all(bad.result.convicted == {"jobs-told-once"} for _, bad in found.bad)


def test_a_few_cases_show_nearly_all_that_is_required_of_the_background() -> None:
    """What takes a rare moment is left to the whole set."""
    pairs: Sequence[tuple[str, str]] = [
        *(("job-fails", "kill"), ("job-wakes", "kill"), ("job-of-a-child", "kill"), ("kept-timer", "freeze")),
        *(("kept-timer", "terminate"), ("cron-outage", "outage"), ("approve-late", "kill"), ("deny", "kill")),
        *(("denied-by-gate", "say"), ("park-and-type", "kill"), ("park-retry-safe", "kill")),
    ]
    seen = {name for case, mode in pairs for name in search([CASES[case]], [MODES[mode]]).situations}

    background = set(list(SITUATIONS)[list(SITUATIONS).index("job-ended") :])
    assert background - seen <= RARE
    assert background <= set(SIM_REQUIRED)
    assert not RARE & set(SWEEP_REQUIRED)


# -- made smaller ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", BACKGROUND_CASES, ids=lambda case: case.name)
def test_every_case_can_be_made_smaller_down_to_nothing_of_interest(case: Case) -> None:
    play = Execution(case).cast.play

    for _ in range(50):
        smaller = next((one for one in edits(play) if is_playable(one)), None)
        if smaller is None:
            break
        play = smaller
    (task,) = play.tasks
    assert [call.tool for _, call in calls_of(task.script)] in ([], ["plain"])
    assert not task.script.parks


def test_an_entry_of_a_cron_table_goes_with_what_removes_it_and_a_name_is_followed() -> None:
    execution = Execution(CASES["cron"])
    play = execution.cast.play
    schedule = execution.run().schedule

    asked = {type(call.asked) for one in edits(play) if is_playable(one) for _, call in calls_of(one.tasks[0].script)}
    without = [one for one in edits(play) if is_playable(one) and not list(calls_of(one.tasks[0].script))]
    assert {Cron, StopCron} <= asked
    assert without
    named = renamed(schedule).play
    assert named is not None
    (made, removed) = [call for _, call in calls_of(named.tasks[0].script)]
    assert (made.arguments.tag, removed.asked) == ("t1#1", StopCron("t1#1"))
    assert is_playable(named)
