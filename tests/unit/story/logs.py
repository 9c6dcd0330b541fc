"""Logs for stories, written by hand: entries under any epoch, at any second."""

from __future__ import annotations

from noeta.core import codec, texts
from noeta.core.events import (
    ApprovalAsked,
    CronFired,
    CronRemoved,
    CronSet,
    Entry,
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
    ToolCall,
    ToolFinished,
    ToolParked,
    ToolStarted,
    TurnFailed,
)
from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.wake import NEXT_GOAL, ControlReceived, HumanResponseReceived, TimerFired
from noeta.story.lines import story_lines
from noeta.story.parts import LOG_ALONE, Seen
from noeta.story.tell import tell

BEGAN = 1_700_000_000 * MICROS_PER_SECOND
"""2023-11-14 22:13:20 UTC."""

CREATED = TaskCreated("clerk", "go")
MESSAGE = HumanResponseReceived(NEXT_GOAL, "hello")
REST = HumanResponseReceived(NEXT_GOAL)
CALLED = ModelCalled("h", 1)
REDRIVEN = StepAttemptAbandoned(4, texts.AUTO_REDRIVE)

SAMPLES: dict[type, Event] = {
    TaskCreated: TaskCreated("clerk", "go", interactive=True, parent_task_id="p", group="p.3-0"),
    MessageTaken: MessageTaken(1, MESSAGE),
    TaskWoken: TaskWoken((2,), ControlReceived("cancel", "enough")),
    ModelCalled: ModelCalled("h", 2),
    ModelReplied: ModelReplied("let me see", (ToolCall("3-0", "slow", {"n": 1}),), "tool_use"),
    ApprovalAsked: ApprovalAsked("3-0", HumanResponseReceived("approval:t:3-0"), "Pay?", {"n": 2}),
    ToolStarted: ToolStarted("3-0", 2),
    ToolFinished: ToolFinished("3-0", "done", children=("t.3-0.1",)),
    ToolParked: ToolParked("3-0", TimerFired(1_700_000_060.0)),
    StepAttemptAbandoned: StepAttemptAbandoned(3, texts.AUTO_REDRIVE),
    NoticeGiven: NoticeGiven("The worker was lost."),
    JobStarted: JobStarted("3-0", "sleep 9"),
    JobEnded: JobEnded("3-0", "exited", exit_code=0, output="done"),
    JobLost: JobLost("3-0"),
    CronSet: CronSet("c1", "0 6 * * *", "Europe/Berlin", "tidy up", 1_700_000_000.0),
    CronRemoved: CronRemoved("c1"),
    CronFired: CronFired("c1", 1_700_000_000.0, 2),
    TurnFailed: TurnFailed("llm_error", "overloaded"),
    TaskSuspended: TaskSuspended(REST, "bye"),
    TaskCompleted: TaskCompleted("bye"),
    TaskFailed: TaskFailed("llm_error", "overloaded"),
    TaskCancelled: TaskCancelled("enough"),
}
"""One event of each kind."""

Dated = tuple[int, float, Event]
"""An epoch, seconds since the task was created, and what happened then."""


def asks(seq: int, *tools: str) -> ModelReplied:
    """A reply at this seq that asks for these tools."""
    return ModelReplied("", tuple(ToolCall(f"{seq}-{n}", tool, {}) for n, tool in enumerate(tools)), "tool_use")


def asked(call: str, text: str = "") -> HumanResponseReceived:
    """What a call waits for that a person is to approve."""
    return HumanResponseReceived(f"approval:t:{call}", text)


def second(seconds: float) -> int:
    """The instant so many seconds after the creation."""
    return BEGAN + round(seconds * MICROS_PER_SECOND)


def log_of(*dated: Dated) -> list[Entry]:
    """A log of these entries, their seqs from 1 on."""
    return [
        Entry(seq, epoch, second(at), event, codec.encode("entry", event))
        for seq, (epoch, at, event) in enumerate(dated, start=1)
    ]


def told(*dated: Dated, seen: Seen = LOG_ALONE, width: int | None = None) -> str:
    """The story of such a log as text, with a line break before it: to be read beside one in triple quotes."""
    lines = [line.text for line in story_lines(tell(log_of(*dated), seen), width)]
    return "\n" + "\n".join(lines) + "\n"
