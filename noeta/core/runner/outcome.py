"""From what a tool returned to what is recorded: the entry, the children it bears, the items it posts.

A tool names all three as data; here they are checked and get their ids. What cannot be recorded is an error result
that says why, before anything is born. Keeps: children-once, bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noeta.core import codec, ids, limits, texts
from noeta.core.cron import parse
from noeta.core.errors import BadInput
from noeta.core.events import CronRemoved, CronSet, Event, JobStarted, ToolFinished, ToolParked
from noeta.core.fold import Approval, CallState, TaskState
from noeta.core.jobs import JOBS_MAX, JobSpec
from noeta.core.lower import check_instant, lower_item
from noeta.core.runner.engine import Engine
from noeta.core.store import Child, Post
from noeta.core.telling import told
from noeta.core.tool import OUTPUT_BYTES_MAX, ChildAsked, CronAsked, Parked, ToolOutcome, ToolResult
from noeta.core.wake import (
    BACKGROUND,
    NEXT_GOAL,
    ExternalEvent,
    HumanResponseReceived,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
    condition_key,
    due_at,
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The entry of a call that was run or recovered, and what is committed with it: ``more`` entries, children, posts.
    ``job``: what is started once they are durable."""

    event: ToolFinished | ToolParked
    children: tuple[Child, ...] = ()
    posts: tuple[Post, ...] = ()
    more: tuple[Event, ...] = ()
    job: JobSpec | None = None


def record(
    engine: Engine, state: TaskState, call: CallState, outcome: object, source: str, *, has_jobs: bool
) -> Recorded:
    """What a tool's outcome becomes. ``outcome``: as the tool returned it, whatever that is. ``has_jobs``: whether this
    worker runs background jobs.

    Raises:
        TypeError: it is no ``ToolOutcome``.
    """
    if not isinstance(outcome, ToolResult | Parked):
        raise TypeError(f"the tool returned {type(outcome).__name__}, expected ToolResult or Parked")
    try:
        if isinstance(outcome, ToolResult) and outcome.job is not None and not has_jobs:
            raise BadInput("job", "this worker runs no background jobs")
        return _record(engine, state, call, outcome, source)
    except BadInput as error:
        return Recorded(finished(call, f"Refused: {error}", is_error=True, source=source))


def finished(
    call: CallState, output: str, *, is_error: bool, source: str, children: Sequence[str] = ()
) -> ToolFinished:
    """The entry of a call's result: its text escaped, and cut at the limit."""
    text = codec.cut(codec.escape_text(output), OUTPUT_BYTES_MAX, texts.OUTPUT_CUT)
    return ToolFinished(call.call.id, text, is_error, source, tuple(children))


def answered(call: CallState) -> ToolFinished:
    """The entry of a parked call whose answer has come."""
    assert call.answer is not None, call
    output, is_error = told(call.answer)
    if call.approval is Approval.DENIED:
        return denied(call, texts.NOT_APPROVED.format(answer=output))
    return finished(call, output, is_error=is_error, source="woken")


def denied(call: CallState, reason: str) -> ToolFinished:
    """The entry of a call that a gate, or a person, did not let start."""
    return finished(call, texts.DENIED.format(reason=reason), is_error=True, source="denied")


def _record(engine: Engine, state: TaskState, call: CallState, outcome: ToolOutcome, source: str) -> Recorded:
    if outcome.children:
        _check_delegation(engine, state, outcome.children)
    match outcome:
        case Parked():
            return _park(state, call, outcome)
        case ToolResult():
            for post in outcome.posts:
                lower_item(post.task_id, post.item, post.key, field="post")
            root = state.root_task_id
            children = tuple(_child(state, call, n, one, BACKGROUND, root) for n, one in _numbered(outcome.children))
            event = finished(
                call,
                str(outcome.output),
                is_error=bool(outcome.is_error),
                source=source,
                children=[child.id for child in children],
            )
            more = (*_job(state, call, outcome.job), *_crons(state, call, outcome.crons, outcome.crons_removed))
            return Recorded(event, children, tuple(outcome.posts), more, outcome.job)


def _job(state: TaskState, call: CallState, spec: JobSpec | None) -> Sequence[Event]:
    if spec is None:
        return ()
    if len(state.jobs) >= JOBS_MAX:
        raise BadInput("job", f"at most {JOBS_MAX} live jobs of a task, found {len(state.jobs)}")
    if not _is_text(spec.command):
        raise BadInput("job.command", f"expected a text without NUL that is not empty, found {spec.command!r:.200}")
    codec.check("job.command", spec.command, bytes_max=limits.COMMAND_BYTES_MAX)
    if spec.directory is not None and not _is_text(spec.directory):
        raise BadInput("job.directory", f"expected a path without NUL, found {spec.directory!r:.200}")
    for name, value in spec.environment.items():
        if not _is_text(name) or "=" in name or not _is_text(value, empty=True):
            raise BadInput("job.environment", f"expected names and values as text, found {name!r:.100}={value!r:.100}")
    return (JobStarted(call.call.id, spec.command),)


def _is_text(value: object, *, empty: bool = False) -> bool:
    """Whether an argument of a process can be this."""
    return isinstance(value, str) and (empty or value != "") and "\0" not in value


def _crons(state: TaskState, call: CallState, asked: Sequence[CronAsked], removed: Sequence[str]) -> Sequence[Event]:
    if asked and (not state.interactive or state.parent_task_id is not None):
        raise BadInput("crons", "only a task that rests between turns, and that nobody waits for, has a cron table")
    unknown = [one for one in removed if one not in state.crons]
    if unknown:
        raise BadInput("crons_removed", f"no such entry: {unknown[0]!r}")
    if len(state.crons) + len(asked) - len(removed) > limits.CRONS_MAX:
        raise BadInput("crons", f"at most {limits.CRONS_MAX} of a task, found {len(state.crons)} and {len(asked)} more")
    made: list[Event] = [CronRemoved(one) for one in removed]
    since = call.started_at / ids.MICROS_PER_SECOND
    for number, one in enumerate(asked, 1):
        parse(one.expression, one.zone)
        codec.check("crons.prompt", one.prompt, bytes_max=limits.CRON_PROMPT_BYTES_MAX)
        cron_id = call.call.id if len(asked) == 1 else f"{call.call.id}.{number}"
        made.append(CronSet(cron_id, one.expression, one.zone, one.prompt, since))
    return made


def _park(state: TaskState, call: CallState, parked: Parked) -> Recorded:
    if (parked.wake_on is None) == (not parked.children):
        raise BadInput("parked", "waits for children, or on one condition, and not both")
    if parked.wake_on is not None:
        return Recorded(ToolParked(call.call.id, _checked(parked.wake_on)))
    one = len(parked.children) == 1
    group = None if one else f"{state.task_id}.{call.call.id}"
    children = tuple(_child(state, call, n, asked, group, None) for n, asked in _numbered(parked.children))
    wake_on = SubtaskCompleted(children[0].id) if group is None else SubtaskGroupCompleted(group, len(children))
    return Recorded(ToolParked(call.call.id, wake_on, tuple(child.id for child in children)), children)


def _checked(wake_on: object) -> WakeCondition:
    """A condition that a tool may wait on. Results of tasks are waited for by whoever delegated them."""
    if not isinstance(wake_on, HumanResponseReceived | ExternalEvent | TimerFired):
        raise BadInput("parked.wake_on", f"a person, an outside event or a timer, found {type(wake_on).__name__}")
    if isinstance(wake_on, HumanResponseReceived) and wake_on.handle == NEXT_GOAL:
        raise BadInput("parked.wake_on.handle", f"{NEXT_GOAL!r} is what people say to the task: a question has its own")
    codec.encode("parked.wake_on", wake_on)
    ids.check_name("parked.wake_on", condition_key(wake_on), chars_max=limits.KEY_CHARS_MAX)
    due = due_at(wake_on)
    if due is not None:
        check_instant("parked.wake_on", due)
    return wake_on


def _check_delegation(engine: Engine, state: TaskState, asked: Sequence[ChildAsked]) -> None:
    depth_max = engine.max_subtask_depth
    if depth_max is not None and state.subtask_depth + 1 > depth_max:
        raise BadInput("children", texts.TOO_DEEP.format(depth=state.subtask_depth, depth_max=depth_max))
    if len(asked) > limits.GROUP_MEMBERS_MAX:
        raise BadInput("children", f"at most {limits.GROUP_MEMBERS_MAX} of one call, found {len(asked)}")
    size = sum(codec.encoded_bytes(codec.escape_text(one.goal)) for one in asked)
    if size > limits.GOALS_BYTES_MAX:
        raise BadInput("children", f"at most {limits.GOALS_BYTES_MAX} bytes of goals, found {size}")


def _child(
    state: TaskState, call: CallState, number: int, asked: ChildAsked, group: str | None, parent: str | None
) -> Child:
    child_id = ids.child_id(state.task_id, call.call.id, number)
    ids.check_name("child.id", child_id, chars_max=limits.TASK_ID_CHARS_MAX)
    ids.check_name("child.agent", asked.agent)
    return Child(
        child_id,
        asked.agent,
        codec.escape_text(asked.goal),
        group=group,
        parent=parent,
        root=state.root_task_id,
        depth=state.subtask_depth + 1,
    )


def _numbered(asked: Sequence[ChildAsked]) -> enumerate[ChildAsked]:
    return enumerate(asked, start=1)
