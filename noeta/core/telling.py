"""What a model is told of an event that ended a wait, in words: the same on every worker. Keeps: same-request."""

from __future__ import annotations

from noeta.core import codec, texts
from noeta.core.cron import MISSED_MAX
from noeta.core.events import JobEnded, JobLost
from noeta.core.wake import (
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    timed_out,
)


def told(event: Item) -> tuple[str, bool]:
    """The words, and whether they are bad news: a child that did not complete (of a group: none did), or a wait whose
    time is over. A null payload is none of these."""
    if timed_out(event):
        return texts.WAIT_TIMED_OUT, True
    match event:
        case SubtaskCompleted():
            return told_of_child(event.subtask_id, event.status, event.output), event.status != "completed"
        case SubtaskGroupCompleted(results=results):
            lines = [told_of_child(one.subtask_id, one.status, one.output) for one in results]
            return "\n\n".join(lines), all(one.status != "completed" for one in results)
        case HumanResponseReceived(text=text):
            return text, False
        case ExternalEvent(payload=payload):
            return codec.canonical(payload).decode(), False
        case TimerFired():
            return texts.TIMER_FIRED, False
        case ControlReceived():
            raise AssertionError(f"an order is obeyed and not told: {event}")


def told_of_child(child: str, status: str, output: str) -> str:
    """What is told of a sub-agent that ended."""
    return texts.CHILD_ENDED.format(child=child, status=status, output=output)


def told_of_job(event: JobEnded | JobLost) -> str:
    """What is told of a background job that ended, or is lost."""
    if isinstance(event, JobLost):
        return texts.JOB_LOST.format(job=event.job_id)
    match event.how:
        case "exited":
            how = f"exited with code {event.exit_code}"
        case "killed":
            how = f"was killed by signal {event.signal}" + (f" ({event.detail})" if event.detail else "")
        case "stopped":
            how = "was stopped"
        case _:
            how = f"could not be started: {event.detail}"
    output = f"Its output:\n{event.output}" if event.output else "It wrote nothing."
    return texts.JOB_ENDED.format(job=event.job_id, how=how, output=output)


def told_of_cron(prompt: str, missed: int) -> str:
    """What begins a turn that the cron table asked for."""
    if not missed:
        return prompt
    count = f"at least {missed}" if missed >= MISSED_MAX else missed
    return texts.CRON_MISSED.format(prompt=prompt, missed=count)
