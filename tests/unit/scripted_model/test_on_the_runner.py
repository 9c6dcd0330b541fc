"""Workloads played by the real runner over the memory store, one drive at a time: they end as foretold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Final

import pytest

from noeta.core import texts
from noeta.core.events import (
    ApprovalAsked,
    CronFired,
    CronRemoved,
    CronSet,
    Entry,
    JobEnded,
    JobLost,
    JobStarted,
    MessageTaken,
    ModelReplied,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    TurnFailed,
)
from noeta.core.wake import (
    NEXT_GOAL,
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    timed_out,
)
from scripted_model.foretold import Foretold
from scripted_model.generate import workload
from scripted_model.profile import Kind, Profile
from tests.unit.scripted_model.staging import ATTEMPTS, Stage

SEEDS: Final = range(8)


@cache
def played(seed: int, patient: bool) -> Stage:
    """A workload with every kind in it, at its end."""
    stage = Stage(workload(seed, len(Kind), Profile(retry_attempts=ATTEMPTS)), patient)
    stage.run()
    return stage


def ending_of(log: tuple[Entry, ...]) -> tuple[str, str | None, str | None]:
    failed = next((e.event.reason for e in reversed(log) if isinstance(e.event, TurnFailed)), None)
    match log[-1].event:
        case TaskCompleted(answer=answer):
            return ("completed", None, answer)
        case TaskFailed(reason=reason):
            return ("failed", reason, None)
        case TaskCancelled():
            return ("cancelled", None, None)
        case TaskSuspended(answer=answer, wake_on=HumanResponseReceived(handle=handle)) if handle == NEXT_GOAL:
            return ("waiting", None if answer is not None else failed, answer)
        case other:
            raise AssertionError(f"{other} is no ending")


def calls_in(log: tuple[Entry, ...]) -> list[tuple[str | None, str, str, bool]]:
    """Tag (of those who write it down), tool, and how it ended."""
    finished = {e.event.call_id: e.event for e in log if isinstance(e.event, ToolFinished)}
    calls = [call for e in log if isinstance(e.event, ModelReplied) for call in e.event.calls]
    ends = [finished.get(call.id, ToolFinished(call.id, "", source="none")) for call in calls]
    return [(c.input.get("tag"), c.tool, end.source, bool(end.is_error)) for c, end in zip(calls, ends, strict=True)]


def check_as_foretold(stage: Stage, foretold: Foretold) -> None:
    log = stage.log(foretold.task)
    outcome, reason, answer = ending_of(log)
    assert outcome in foretold.outcomes(stage.accepted), foretold.task
    calls = calls_in(log)
    if outcome == "cancelled":
        assert [tool for _, tool, _, _ in calls] == [call.tool for call in foretold.calls[: len(calls)]]
        return
    assert (reason, answer) == (foretold.reason, foretold.answer)
    assert set(foretold.message_keys) <= stage.accepted
    assert len(calls) == len(foretold.calls)
    for (tag, tool, source, is_error), told in zip(calls, foretold.calls, strict=True):
        assert (tag or told.tag, tool) == (told.tag, told.tool)
        if not foretold.close_keys:
            assert source == {"parked": "none"}.get(told.source, told.source)
            assert told.is_error in (None, is_error) or told.source == "parked", told
    check_background(log, foretold)


def check_background(log: tuple[Entry, ...], foretold: Foretold) -> None:
    """Every shell was started, and told of once; every entry of the cron table was made, and is gone if foretold."""
    started = [entry.event.job_id for entry in log if isinstance(entry.event, JobStarted)]
    told = [entry.event.job_id for entry in log if isinstance(entry.event, JobEnded | JobLost)]
    assert len(started) == len(foretold.jobs)
    assert sorted(started) == sorted(told)
    made = [entry.event.expression for entry in log if isinstance(entry.event, CronSet)]
    assert made == [cron.expression for cron in foretold.crons]
    removed = sum(isinstance(entry.event, CronRemoved) for entry in log)
    assert removed == sum(cron.is_removed for cron in foretold.crons)


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_real_runner_leads_every_task_to_what_was_foretold(seed: int, patient: bool) -> None:
    stage = played(seed, patient)

    told = stage.foretold()
    for foretold in told.values():
        check_as_foretold(stage, foretold)
    assert len(stage.book.deaths) == sum(one.deaths for one in told.values())
    assert set(Counter(effect.token for effect in stage.book.effects).values()) == {1}


@pytest.mark.parametrize("forgets_after", [3, 12, 24])
@pytest.mark.parametrize("seed", range(4))
def test_a_client_that_remembers_nothing_leads_every_task_to_the_same_end(seed: int, forgets_after: int) -> None:
    stage = Stage(workload(seed, len(Kind), Profile(retry_attempts=ATTEMPTS)), forgets_after=forgets_after)
    stage.run()

    assert stage.forgets_after is None
    for foretold in stage.foretold().values():
        check_as_foretold(stage, foretold)


def test_all_that_may_come_of_waiting_comes_of_some_seed() -> None:
    seen: Counter[str] = Counter()
    for patient in (False, True):
        for seed in SEEDS:
            stage = played(seed, patient)
            for task in stage.foretold().values():
                seen.update(happened(task, stage.log(task.task)))

    assert set(seen) >= {
        "answered",
        "timed out",
        "an event came",
        "a timer fired",
        "a sub-agent ended",
        "a group ended",
        "a delegation was refused",
        "cancelled while it waits",
        "cancelled while it works",
        "cancelled too late",
        "closed while it waits",
        "closed while it works",
        "told of a background sub-agent",
        "a background sub-agent ended with its root",
        "a sub-agent was given up",
        "a sub-agent failed",
        "an event nobody waited for",
        "a shell ended",
        "a shell failed",
        "a shell was stopped",
        "a shell was lost",
        "a shell woke its task",
        "a cron fired",
        "approval was asked",
        "a call was denied",
        "parked",
        "went on after a park",
    }


def happened(foretold: Foretold, log: tuple[Entry, ...]) -> Iterator[str]:
    """What the log shows of waits and orders."""
    delegating = {c.id for e in log if isinstance(e.event, ModelReplied) for c in e.event.calls if "Agent" in c.tool}
    for before, entry in pairwise(log):
        waits = "waits" if isinstance(before.event, TaskSuspended) else "works"
        match entry.event:
            case TaskWoken(event=ControlReceived(action="close")):
                yield "closed while it waits"
            case MessageTaken(message=ControlReceived(action="close")):
                yield "closed while it works"
            case TaskWoken(event=event) if timed_out(event):
                yield "timed out"
            case TaskWoken() if isinstance(before.event, TaskSuspended) and before.event.reason == texts.ATTEMPT_PARKED:
                yield "went on after a park"
            case TaskWoken(event=HumanResponseReceived(handle=handle)) if handle != NEXT_GOAL:
                yield "answered"
            case TaskWoken(event=ExternalEvent()):
                yield "an event came"
            case TaskWoken(event=TimerFired()):
                yield "a timer fired"
            case TaskWoken(event=SubtaskCompleted(status=status)):
                yield "a sub-agent failed" if status == "failed" else "a sub-agent ended"
            case TaskWoken(event=SubtaskGroupCompleted()):
                yield "a group ended"
            case ToolFinished(call_id=call, source="ran", is_error=True) if call in delegating:
                yield "a delegation was refused"
            case MessageTaken(message=item) | TaskWoken(event=item) if getattr(item, "sender", ""):
                yield "told of a background sub-agent"
            case JobEnded(how="stopped"):
                yield "a shell was stopped"
            case JobEnded(exit_code=code) if isinstance(before.event, TaskSuspended):
                yield "a shell woke its task"
            case JobEnded(exit_code=code):
                yield "a shell failed" if code else "a shell ended"
            case JobLost():
                yield "a shell was lost"
            case CronFired():
                yield "a cron fired"
            case ApprovalAsked():
                yield "approval was asked"
            case ToolFinished(source="denied"):
                yield "a call was denied"
            case TaskSuspended(reason=texts.ATTEMPT_PARKED):
                yield "parked"
            case TaskCancelled(reason=""):
                yield f"cancelled while it {waits}"
            case TaskCancelled(reason=texts.PARENT_ENDED):
                yield "a background sub-agent ended with its root"
            case TaskCancelled(reason=texts.WAIT_GIVEN_UP):
                yield "a sub-agent was given up"
            case TaskCompleted() if foretold.cancel_keys:
                yield "cancelled too late"
            case TaskCompleted() if foretold.kind == Kind.FLOOD.value:
                yield "an event nobody waited for"


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_as_many_sub_agents_are_born_as_foretold_and_no_other(seed: int, patient: bool) -> None:
    stage = played(seed, patient)

    told = stage.foretold()
    for root in (one for one in told.values() if "." not in one.task):
        born = Counter(one.name for one in told.values() if one.task.startswith(f"{root.task}."))
        foretold = Counter(child.name for child in root.descendants)
        if root.cancel_keys or root.close_keys:
            assert born <= foretold
        else:
            assert born + cut_off(root, stage, told) == foretold


def cut_off(root: Foretold, stage: Stage, told: dict[str, Foretold]) -> Counter[str]:
    """Those below a sub-agent that was cancelled with the root before it delegated."""
    cancelled = {one.name for one in told.values() if ending_of(stage.log(one.task))[0] == "cancelled"}
    born = {one.name for one in told.values()}
    return Counter(child.name for child in root.descendants if child.above in cancelled and child.name not in born)
