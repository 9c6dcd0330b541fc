"""The entries of a log in words, one line each."""

from __future__ import annotations

from typing import Any, Final, assert_never

from msgspec import UNSET, UnsetType

from noeta.core import texts
from noeta.core.events import (
    ApprovalAsked,
    CronFired,
    CronRemoved,
    CronSet,
    Event,
    JobEnded,
    JobLost,
    JobStarted,
    MessageTaken,
    ModelCalled,
    ModelReplied,
    NoticeGiven,
    StepAttemptAbandoned,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolParked,
    ToolStarted,
    TurnFailed,
)
from noeta.core.ids import micros
from noeta.story.text import instant, name, quoted, value
from noeta.story.words import item, wait

NOTICE_CHARS_MAX: Final = 400
"""A person must be able to read what a notice says."""

_RESULTS: Final = {
    "ran": "finished",
    "recovered": "was looked up",
    "woken": "has its answer",
    "denied": "was denied, and not started",
    "unknown": "has an unknown outcome, and the model is told so",
}
"""How a result came about, by its ``source``."""

_SEALS: Final = {
    texts.AUTO_REDRIVE: "the task is taken up again",
    texts.WORKER_STOPPED: "the worker is told to stop",
    texts.ATTEMPT_PARKED: "a person is to say how it goes on",
}
"""Why an attempt was sealed, where its reason is no plain word."""

_RESTS: Final = {texts.ATTEMPT_PARKED: "parked until a person says how it goes on"}
"""Why a task rests without an answer, where its reason is no plain word."""


class Teller:
    """Tells the entries of one log in their order: what a call is named is in the reply before it."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}

    def tell(self, event: Event) -> str:
        """What this entry says."""
        match event:
            case TaskCreated():
                by = "" if event.parent_task_id is None else f", for task {name(event.parent_task_id)}"
                kind = "interactive" if event.interactive else "one-shot"
                return f"created: agent {name(event.agent)}, {kind}{by}: {quoted(event.goal)}"
            case MessageTaken():
                return f"took item {event.number}: {item(event.message)}"
            case TaskWoken():
                many = "items" if len(event.numbers) != 1 else "item"
                return f"woken by {many} {', '.join(map(str, event.numbers))}: {item(event.event)}"
            case ModelCalled():
                return "asked the model" + (f" (attempt {event.attempt})" if event.attempt > 1 else "")
            case ModelReplied():
                return self._replied(event)
            case ApprovalAsked():
                changed = _changed(event.input)
                return f"{self.call(event.call_id)} waits for a person's approval{changed}: {quoted(event.question)}"
            case ToolStarted():
                again = f" again, start {event.start}" if event.start > 1 else ""
                return f"started {self.call(event.call_id)}{again}{_changed(event.input)}"
            case ToolFinished():
                return self._finished(event)
            case ToolParked():
                return f"{self.call(event.call_id)} waits for {wait(event.wake_on)}" + _born(event.children)
            case StepAttemptAbandoned():
                return _sealed(event)
            case NoticeGiven():
                return f"told people: {quoted(event.text, most=NOTICE_CHARS_MAX)}"
            case JobStarted():
                return f"started {job(event.job_id)} in the background: {quoted(event.command)}"
            case JobEnded():
                said = f": {quoted(event.output)}" if event.output else ", having written nothing"
                return f"{job(event.job_id)} {job_end(event)}{said}"
            case JobLost():
                return f"{job(event.job_id)} is lost with the claim that ran it; the model is told"
            case CronSet():
                when = f"{quoted(event.expression)} in {name(event.zone)}"
                return f"cron {name(event.cron_id)} is set, {when}, to say {quoted(event.prompt)}"
            case CronRemoved():
                return f"cron {name(event.cron_id)} is removed"
            case CronFired():
                missed = f"; {event.missed:,} earlier skipped" if event.missed else ""
                return f"cron {name(event.cron_id)} fired, due {instant(micros(event.due_at))}{missed}"
            case TurnFailed():
                return f"the turn failed: {name(event.reason)}: {quoted(event.message)}"
            case TaskSuspended():
                why = "" if event.answer is None else f", having answered {quoted(event.answer)}"
                why += f", {_RESTS.get(event.reason) or quoted(event.reason)}" if event.reason else ""
                return f"rests, waiting for {wait(event.wake_on)}{why}"
            case TaskCompleted():
                return "completed" + ("" if event.answer is None else f": {quoted(event.answer)}")
            case TaskFailed():
                return f"failed: {name(event.reason)}: {quoted(event.message)}"
            case TaskCancelled():
                return "cancelled" + (f": {quoted(event.reason)}" if event.reason else "")
            case _:
                assert_never(event)

    def call(self, call_id: str) -> str:
        """A call by its tool, and its id."""
        tool = self._tools.get(call_id)
        return f"call {name(call_id)}" if tool is None else f"{name(tool)} (call {name(call_id)})"

    def _replied(self, event: ModelReplied) -> str:
        self._tools.update((call.id, call.tool) for call in event.calls)
        cut = " (cut at its limit)" if event.stop == "max_tokens" else ""
        said = [quoted(event.text)] if event.text or not event.calls else []
        asked = [f"{self.call(call.id)} with {value(call.input)}" for call in event.calls]
        if not asked:
            return f"the model replied{cut}: {said[0]}"
        return f"the model {'replied' + cut + ': ' + said[0] + ' and ' if said else ''}asked for {'; '.join(asked)}"

    def _finished(self, event: ToolFinished) -> str:
        how = _RESULTS.get(event.source, f"has its result ({name(event.source)})")
        if event.is_error and event.source not in ("denied", "unknown"):
            how = "failed" if event.source == "ran" else f"{how}, an error"
        return f"{self.call(event.call_id)} {how}: {quoted(event.output)}" + _born(event.children)


def job(job_id: str) -> str:
    """A background job; its id is that of the call that started it."""
    return f"job {name(job_id)}"


def job_end(event: JobEnded) -> str:
    """How a job ended."""
    match event.how:
        case "exited":
            return f"exited with code {event.exit_code}"
        case "killed":
            return f"was killed by signal {event.signal}" + (f" ({quoted(event.detail)})" if event.detail else "")
        case "not_started":
            return f"could not be started: {quoted(event.detail)}"
        case how:
            return f"was {name(how)}"


def _sealed(event: StepAttemptAbandoned) -> str:
    why = _SEALS.get(event.reason, name(event.reason))
    return f"gave up what was half done from seq {event.abandoned_from_seq} on: {why}"


def _changed(input: Any | UnsetType) -> str:
    return "" if input is UNSET else f", a gate having changed its input to {value(input)}"


def _born(children: tuple[str, ...]) -> str:
    return f"; born: {', '.join(map(name, children))}" if children else ""
