"""Logs for the tests of core: written by hand, or drawn so that every one is a log a runner could have written."""

from __future__ import annotations

from hypothesis import strategies as st

from noeta.core import codec, ids
from noeta.core.events import (
    Entry,
    Event,
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
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnFailed,
)
from noeta.core.fold import TaskState, advance, fold
from noeta.core.task import Status
from noeta.core.wake import (
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
)

CREATED = TaskCreated("agent", "goal")
CHAT = TaskCreated("agent", "goal", interactive=True)
CALLED = ModelCalled("hash", 1)


def entries(*events: Event, first_seq: int = 1, epoch: int = 1) -> list[Entry]:
    """These events as entries, each with its stored body."""
    return [
        Entry(seq, epoch, seq * 1_000, event, codec.encode("entry", event))
        for seq, event in enumerate(events, start=first_seq)
    ]


def folded(*events: Event) -> TaskState:
    """The state after these events."""
    return fold("t", entries(*events))


def replied(seq: int, *tools: str, text: str = "") -> ModelReplied:
    """A reply at this seq that asks for these tools, in order."""
    calls = tuple(ToolCall(ids.call_id(seq, i), tool, {}) for i, tool in enumerate(tools))
    return ModelReplied(text, calls, "tool_use" if calls else "end")


NAMES = st.sampled_from(["a", "b", "group", "next-goal", "t.2-0.0", "ü"])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
RESULTS = st.builds(
    SubtaskCompleted, NAMES, st.sampled_from(["completed", "failed", "cancelled"]), TEXTS, st.none() | NAMES
)
CONDITIONS: st.SearchStrategy[WakeCondition] = st.one_of(
    RESULTS,
    st.builds(SubtaskGroupCompleted, NAMES, st.integers(0, 4), st.just(())),
    st.builds(HumanResponseReceived, NAMES, TEXTS),
    st.builds(TimerFired, st.floats(0, 4e9, allow_nan=False)),
    st.builds(ExternalEvent, NAMES, st.none() | TEXTS | st.integers(-9, 9)),
)
ITEMS = CONDITIONS | st.builds(ControlReceived, st.just("cancel"), TEXTS)


@st.composite
def valid_logs(draw: st.DrawFn, *, max_size: int = 30) -> list[Entry]:
    """A log that folds: each entry is one that may follow from the state before it."""
    log = entries(draw(st.sampled_from([CREATED, CHAT])), epoch=0)
    state = fold("t", log)
    epoch = 0
    for number in range(1, draw(st.integers(0, max_size)) + 1):
        if state.status is Status.TERMINAL:
            break
        seq = state.last_seq + 1
        epoch += draw(st.integers(0, 1))
        event = draw(st.sampled_from(_may_follow(state, seq, number)))
        (entry,) = entries(event, first_seq=seq, epoch=epoch)
        advance(state, entry)
        log.append(entry)
    return log


def _may_follow(state: TaskState, seq: int, number: int) -> list[Event]:
    endings: list[Event] = [TaskCompleted("bye"), TaskFailed("why"), TaskCancelled()]
    if state.status is Status.SUSPENDED:
        return [TaskWoken((number,), HumanResponseReceived(text="go on")), *endings[1:]]
    found: list[Event] = [
        CALLED,
        replied(seq, text="said"),
        replied(seq),
        replied(seq, "a"),
        replied(seq, "a", "b"),
        ModelReplied("cut", (), "max_tokens"),
        MessageTaken(number, HumanResponseReceived(text="also")),
        TurnFailed("llm_error", "text"),
        TurnFailed("internal_error", "text"),
        TaskSuspended(HumanResponseReceived()),
        *endings,
    ]
    for call in state.calls.values():
        if not call.finished:
            found.append(ToolStarted(call.call.id, call.starts + 1))
            found.append(ToolFinished(call.call.id, "out"))
    if state.model_called_seq is not None:
        found.append(StepAttemptAbandoned(state.model_called_seq, "auto_redrive"))
    return found
