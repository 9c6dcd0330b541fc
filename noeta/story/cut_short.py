"""What the end of a claim cut short, and how each of it went on: a sentence each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from noeta.core import texts
from noeta.core.events import (
    Ending,
    Event,
    JobEnded,
    JobLost,
    ModelCalled,
    ModelReplied,
    NoticeGiven,
    StepAttemptAbandoned,
    TaskSuspended,
    ToolFinished,
    ToolParked,
    ToolStarted,
    TurnFailed,
)
from noeta.story.entries import Teller, job, job_end
from noeta.story.parts import Written
from noeta.story.text import name, quoted
from noeta.story.under_way import UnderWay

_LOOKED_UP = "its outcome was looked up"
_UNKNOWN = "its outcome is unknown, and the model was told so"


def cut_short(under_way: UnderWay, log: Sequence[Written], place: int, teller: Teller) -> Iterator[str]:
    """What was under way when a claim ended, and what the entries from ``place`` on say of it.

    A model call that its worker gave up before it stopped counts, too. With no entry there: nobody has gone on yet.
    """
    before = log[place - 1].event
    if isinstance(before, StepAttemptAbandoned) and before.reason == texts.WORKER_STOPPED:
        yield "the worker was told to stop, and gave the task back"
        given_up = _last_model_call(log, place)
        if given_up is not None:
            yield f"the model call was given up: {_fate(log, place, lambda event: _of_model(event, given_up))}"
    model = under_way.model
    if model is not None:
        yield f"the model call was cut short: {_fate(log, place, lambda event: _of_model(event, model))}"
    for call_id in under_way.calls:
        told = _of_call(call_id)
        yield f"{teller.call(call_id)} was cut short: {_fate(log, place, told)}"
    for job_id, command in under_way.jobs.items():
        yield f"{job(job_id)} ({quoted(command)}) was running: {_fate(log, place, _of_job(job_id))}"


def _fate(log: Sequence[Written], place: int, told: Callable[[Event], str | None]) -> str:
    """What the first entry says that tells; under which epoch, if not under the next."""
    for entry in islice(log, place, None):
        words = told(entry.event)
        if words is not None:
            return words if entry.epoch == log[place].epoch else f"{words} (under epoch {entry.epoch})"
    return "nobody has taken it up yet"


def _last_model_call(log: Sequence[Written], place: int) -> ModelCalled | None:
    for number in range(place - 1, -1, -1):
        event = log[number].event
        if isinstance(event, ModelCalled):
            return event
    return None


def _of_model(event: Event, call: ModelCalled) -> str | None:
    match event:
        case ModelCalled() if event.request_hash == call.request_hash:
            return "made again with the same request"
        case ModelCalled():
            code = ", since the agent's code had changed" if event.engine_hash != call.engine_hash else ""
            return f"made again with another request{code}"
        case ModelReplied():
            return "its reply was written all the same"
        case _:
            return _end_of_turn(event)


def _of_call(call_id: str) -> Callable[[Event], str | None]:
    told_people = False

    def told(event: Event) -> str | None:
        nonlocal told_people
        match event:
            case ToolStarted(call_id=id, start=start) if id == call_id:
                return f"started again (start {start})"
            case ToolFinished(call_id=id, source="recovered") if id == call_id:
                return _LOOKED_UP
            case ToolFinished(call_id=id, source="unknown") if id == call_id:
                return _UNKNOWN
            case ToolFinished(call_id=id) if id == call_id:
                return "its result was written all the same"
            case ToolParked(call_id=id) if id == call_id:
                return f"{_LOOKED_UP}, and it waits for its answer"
            case NoticeGiven():
                told_people = True
                return None
            case TaskSuspended() if told_people:
                return "left to a person: the task was parked, and people were told"
            case _:
                return _end_of_turn(event)

    return told


def _of_job(job_id: str) -> Callable[[Event], str | None]:
    def told(event: Event) -> str | None:
        match event:
            case JobLost(job_id=id) if id == job_id:
                return "lost with that claim, and the model was told so"
            case JobEnded(job_id=id) if id == job_id:
                return f"it {job_end(event)}"
            case _:
                return "it ended with that claim, and nobody wrote down how" if isinstance(event, Ending) else None

    return told


def _end_of_turn(event: Event) -> str | None:
    match event:
        case TurnFailed(reason=reason):
            return f"the turn failed instead ({name(reason)})"
        case TaskSuspended():
            return "the turn was stopped instead"
        case _:
            return "the task ended instead" if isinstance(event, Ending) else None
