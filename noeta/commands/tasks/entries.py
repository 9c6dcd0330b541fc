"""The entries of a log in words, one line each."""

from __future__ import annotations

from typing import assert_never

from noeta.commands.tasks.words import name, quoted, value, wait
from noeta.core.events import (
    Entry,
    MessageTaken,
    ModelCalled,
    ModelReplied,
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
from noeta.core.wake import (
    NEXT_GOAL,
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    timed_out,
)


class Teller:
    """Tells the entries of one log in their order: what a call is named is in the reply before it."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}

    def tell(self, entry: Entry) -> str:
        """What this entry says."""
        event = entry.event
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
                return "asked the model" + (f", attempt {event.attempt}" if event.attempt > 1 else "")
            case ModelReplied():
                return self._replied(event)
            case ToolStarted():
                return f"{self._call(event.call_id)} started" + (f", start {event.start}" if event.start > 1 else "")
            case ToolFinished():
                return self._finished(event)
            case ToolParked():
                return f"{self._call(event.call_id)} waits for {wait(event.wake_on)}" + _born(event.children)
            case StepAttemptAbandoned():
                return f"sealed what was half done from seq {event.abandoned_from_seq} on: {name(event.reason)}"
            case TurnFailed():
                return f"the turn failed: {name(event.reason)}: {quoted(event.message)}"
            case TaskSuspended():
                why = "" if event.answer is None else f", having answered {quoted(event.answer)}"
                why += f", {quoted(event.reason)}" if event.reason else ""
                return f"rests, waiting for {wait(event.wake_on)}{why}"
            case TaskCompleted():
                return "completed" + ("" if event.answer is None else f": {quoted(event.answer)}")
            case TaskFailed():
                return f"failed: {name(event.reason)}: {quoted(event.message)}"
            case TaskCancelled():
                return "cancelled" + (f": {quoted(event.reason)}" if event.reason else "")
            case _:
                assert_never(event)

    def _replied(self, event: ModelReplied) -> str:
        self._tools.update((call.id, call.tool) for call in event.calls)
        said = [quoted(event.text)] if event.text or not event.calls else []
        said += [f"call {self._call(call.id)} {value(call.input)}" for call in event.calls]
        cut = " (cut at its limit)" if event.stop == "max_tokens" else ""
        return f"the model replied{cut}: {'; '.join(said)}"

    def _finished(self, event: ToolFinished) -> str:
        how = "is an error" if event.is_error else "has its result"
        source = "" if event.source == "ran" else f" ({name(event.source)})"
        return f"{self._call(event.call_id)} {how}{source}: {quoted(event.output)}" + _born(event.children)

    def _call(self, call_id: str) -> str:
        tool = self._tools.get(call_id)
        return name(call_id) if tool is None else f"{name(call_id)} {name(tool)}"


def item(what: Item) -> str:
    """What reached a task from outside."""
    match what:
        case HumanResponseReceived(handle=handle, text=text, sender=sender):
            if timed_out(what):
                return f"no answer to {name(handle)} came in time"
            if handle != NEXT_GOAL:
                return f"the answer {quoted(text)} to {name(handle)}"
            return f"the message {quoted(text)}" + (f" of task {name(sender)}" if sender else "")
        case ExternalEvent(event_kind=kind, payload=payload):
            if timed_out(what):
                return f"no event {name(kind)} came in time"
            return f"the event {name(kind)}" + ("" if payload is None else f" with {value(payload)}")
        case TimerFired():
            return "its timer"
        case SubtaskCompleted(subtask_id=child, status=status, output=output):
            return f"task {name(child)} {name(status)}: {quoted(output)}"
        case SubtaskGroupCompleted(group_id=group, results=results):
            members = ", ".join(f"{name(one.subtask_id)} {name(one.status)}" for one in results)
            return f"group {name(group or '')} is complete: {members}"
        case ControlReceived(action=action, reason=reason):
            return f"an order to {name(action)}" + (f": {quoted(reason)}" if reason else "")
        case _:
            assert_never(what)


def _born(children: tuple[str, ...]) -> str:
    return f"; born: {', '.join(map(name, children))}" if children else ""
