"""What must be true of a scripted task at the end, said before it runs.

Answers and outcomes hold whatever happens to workers: results of tools and the place where messages land
change nothing. How a *call* ends (``ran``, ``recovered``, ``woken``, ``unknown``) is foretold for a run in which
nothing but the script kills workers; under faults from outside any call that does not opt in may end unknown (and
what it should have delegated is not born then), and any turn may end by a bound that those faults filled: the laws
over log and history judge that, not this module.

Sub-agents are foretold like any task, from the goal in their log; what may end them early stands in the tree above
them, which is foretold with the root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from noeta.core import texts
from noeta.core.retry import DEFAULT_MAX_ATTEMPTS
from noeta.core.tool import MAX_ATTEMPTS
from scripted_model.course import answer_at
from scripted_model.foretold import Bound, Foretold, ForetoldCall, ForetoldChild, ForetoldTurn, Outcome
from scripted_model.said_check import check_messages
from scripted_model.script import (
    SUBTASK_DEPTH_MAX,
    TOOLS,
    Agent,
    AgentGroup,
    Asked,
    AwaitEvent,
    BadScript,
    Call,
    Cut,
    Empty,
    Fail,
    Handback,
    Kill,
    Question,
    Say,
    Script,
    Step,
    Timer,
    Tools,
    calls_of,
    check,
    children_of,
    from_goal,
    is_background,
    tree_of,
)
from scripted_model.workload import ScheduledMessage, ScriptedTask, Workload, child_cancel_key

__all__ = [
    "Bound",
    "Foretold",
    "ForetoldCall",
    "ForetoldChild",
    "ForetoldTurn",
    "Outcome",
    "depth_of",
    "foretell",
    "foretell_all",
    "foretell_child",
]


def foretell(
    task: ScriptedTask,
    messages: Iterable[ScheduledMessage] = (),
    *,
    retry_attempts: int = DEFAULT_MAX_ATTEMPTS,
    max_subtask_depth: int | None = SUBTASK_DEPTH_MAX,
) -> Foretold:
    """What must be true of this task once it and these messages are done with.

    Raises:
        ValueError: a provider failure that should pass would exhaust ``retry_attempts``, a turn has no message, a
        question or an awaited event has nobody who brings it, or a close comes where nobody could foretell it.
    """
    script = task.script
    check(script)
    for one in tree_of(script):
        _check_failures(one, retry_attempts)
    if any(isinstance(call.asked, Handback) for _, call in calls_of(script)):
        raise BadScript(f"{task.id}: a task without a parent has nobody to hand back to")
    own = [message for message in messages if message.task == task.id]
    check_messages(script, own)
    kinds = {message.kind for message in own}
    needed = [m for m in own if m.kind in ("turn", "note") or ("close" not in kinds and _is_awaited(script, m))]
    hurt, ends = not kinds.isdisjoint({"cancel", "close"}), not script.interactive
    talks = not kinds.isdisjoint({"turn", "note", "close"}) or _is_told(script)
    return _foretold(
        task.id,
        script,
        depth=0,
        retry_attempts=retry_attempts,
        max_subtask_depth=max_subtask_depth,
        message_keys=tuple(m.key for m in needed if not m.may_be_refused),
        refusable_keys=tuple(m.key for m in needed if m.may_be_refused),
        own=own,
        turns_counted=not (script.interactive and talks),
        descendants=tuple(_born(script, 0, max_subtask_depth, hurt=hurt, root_ends=ends)),
    )


def foretell_child(
    task_id: str,
    goal: str,
    *,
    root: Foretold | None = None,
    retry_attempts: int = DEFAULT_MAX_ATTEMPTS,
    max_subtask_depth: int | None = SUBTASK_DEPTH_MAX,
) -> Foretold:
    """What must be true of a sub-agent, from its id and its goal, as they stand in its log.

    ``root``: what is foretold of the task at the top of its tree, which knows whether it may be cancelled; None, or a
    root that knows no such sub-agent: it may.

    Raises:
        BadScript: the goal holds no script.
    """
    script = from_goal(goal)
    known = None if root is None else root.find(script.task)
    may_be_cancelled = known is None or known.may_be_cancelled
    depth = depth_of(task_id)
    root_ends = root is None or root.outcome != "waiting"
    return _foretold(
        task_id,
        script,
        depth=depth,
        retry_attempts=retry_attempts,
        max_subtask_depth=max_subtask_depth,
        may_be_cancelled=may_be_cancelled,
        descendants=tuple(_born(script, depth, max_subtask_depth, hurt=may_be_cancelled, root_ends=root_ends)),
    )


def foretell_all(load: Workload) -> tuple[Foretold, ...]:
    """Every task of a workload, in order."""
    return tuple(foretell(task, load.messages_of(task.id), retry_attempts=load.retry_attempts) for task in load.tasks)


def depth_of(task_id: str) -> int:
    """How many tasks stand above this one: a child's id adds its call and its number to the id above it."""
    return task_id.count(".") // 2


def _foretold(
    task_id: str,
    script: Script,
    *,
    depth: int,
    retry_attempts: int,
    max_subtask_depth: int | None,
    descendants: tuple[ForetoldChild, ...],
    message_keys: tuple[str, ...] = (),
    refusable_keys: tuple[str, ...] = (),
    own: Sequence[ScheduledMessage] = (),
    may_be_cancelled: bool = False,
    turns_counted: bool = True,
) -> Foretold:
    turns = tuple(_turn(script, number) for number in range(1, len(script.turns) + 1))
    last = turns[-1]
    may_delegate = max_subtask_depth is None or depth < max_subtask_depth
    calls = tuple(_call(turn, call, own, may_delegate=may_delegate) for turn, call in calls_of(script))
    return Foretold(
        task=task_id,
        kind=script.kind,
        outcome=_outcome(script, last),
        reason=last.reason,
        answer=last.answer,
        turns=turns,
        calls=calls,
        message_keys=message_keys,
        refusable_keys=refusable_keys,
        bounds=tuple(_bounds(script, calls)),
        deaths=_deaths(script),
        cancel_keys=(
            *(message.key for message in own if message.kind == "cancel"),
            *([child_cancel_key(task_id)] if depth and _asks_people(script) else []),
        ),
        close_keys=tuple(message.key for message in own if message.kind == "close"),
        may_be_cancelled=may_be_cancelled,
        turns_counted=turns_counted,
        name=script.task,
        descendants=descendants,
    )


def _outcome(script: Script, last: ForetoldTurn) -> Outcome:
    if script.interactive:
        return "waiting"
    return "failed" if last.ends == "failed" else "completed"


def _turn(script: Script, number: int) -> ForetoldTurn:
    match script.turns[number - 1].steps[-1]:
        case Say():
            return ForetoldTurn(number, "answer", None, answer_at(script, number - 1))
        case Empty():
            return ForetoldTurn(number, "no_answer", None, None)
        case Cut():
            return ForetoldTurn(number, "failed", texts.LLM_TRUNCATED, None)
        case Fail() | Kill():
            return ForetoldTurn(number, "failed", texts.LLM_ERROR, None)
        case Tools() as step:
            raise AssertionError(f"a checked turn does not end in {step}")


def _call(turn: int, call: Call, own: Sequence[ScheduledMessage], *, may_delegate: bool) -> ForetoldCall:
    if call.asked is not None:
        return _asking(turn, call, call.asked, own, may_delegate=may_delegate)
    spec, arguments = TOOLS[call.tool], call.arguments
    tag, tool, through = arguments.tag, call.tool, arguments.dies_through_start
    if not spec.dies:
        return ForetoldCall(tag, tool, turn, "ran", is_error=spec.fails, starts=1)
    if spec.recovers and arguments.dies == "after":
        return ForetoldCall(tag, tool, turn, "recovered", is_error=False, starts=1)
    if spec.retry_safe and through < MAX_ATTEMPTS:
        return ForetoldCall(tag, tool, turn, "ran", is_error=False, starts=through + 1)
    starts = MAX_ATTEMPTS if spec.retry_safe else 1
    return ForetoldCall(tag, tool, turn, "unknown", is_error=True, starts=starts)


def _asking(
    turn: int, call: Call, asked: Asked, own: Sequence[ScheduledMessage], *, may_delegate: bool
) -> ForetoldCall:
    def told(source: Literal["ran", "woken"], *, is_error: bool | None) -> ForetoldCall:
        return ForetoldCall(call.arguments.tag, call.tool, turn, source, is_error=is_error, starts=1)

    match asked:
        case Agent() | AgentGroup() if not may_delegate:
            return told("ran", is_error=True)
        case Agent(background=True) | Handback():
            return told("ran", is_error=False)
        case Agent() | AgentGroup():
            return told("woken", is_error=all(_turn(child, 1).ends == "failed" for child in children_of(call)))
        case Timer() | Question(timeout_seconds=None) | AwaitEvent(timeout_seconds=None):
            return told("woken", is_error=False)
        case Question():
            return told("woken", is_error=None if any(m.kind == "answer" for m in own) else True)
        case AwaitEvent(event_kind=kind):
            return told("woken", is_error=None if any(m.event_kind == kind for m in own) else True)


def _born(script: Script, depth: int, depth_max: int | None, *, hurt: bool, root_ends: bool) -> Iterator[ForetoldChild]:
    """Everybody below. ``hurt``: the task itself may be cancelled or closed. ``root_ends``: while what works in the
    background still runs, and all that this delegates."""
    if depth_max is not None and depth >= depth_max:
        return
    for _, call in calls_of(script):
        background = is_background(call)
        in_danger = hurt or (background and root_ends)
        for number, child in enumerate(children_of(call), 1):
            tag = call.arguments.tag
            yield ForetoldChild(child.task, script.task, tag, number, depth + 1, background, in_danger)
            yield from _born(child, depth + 1, depth_max, hurt=in_danger or _asks_people(child), root_ends=root_ends)


def _is_awaited(script: Script, message: ScheduledMessage) -> bool:
    """Whether a call waits for this event, however long it takes."""
    asked = [call.asked for _, call in calls_of(script)]
    return any(
        isinstance(one, AwaitEvent) and one.timeout_seconds is None and one.event_kind == message.event_kind
        for one in asked
    )


def _is_told(script: Script) -> bool:
    """Whether sub-agents speak to the task as people do: those in its background, and those that hand back."""
    tree = list(tree_of(script))
    calls = [call for one in tree for _, call in calls_of(one)]
    return any(is_background(call) or isinstance(call.asked, Handback) for call in calls)


def _asks_people(script: Script) -> bool:
    """Whether it waits for a person for as long as it takes."""
    asked = [call.asked for _, call in calls_of(script)]
    return any(isinstance(one, Question) and one.timeout_seconds is None for one in asked)


def _steps(script: Script) -> list[Step]:
    return [step for turn in script.turns for step in turn.steps]


def _deaths(script: Script) -> int:
    deaths = texts.MAX_MODEL_ATTEMPTS * sum(isinstance(step, Kill) for step in _steps(script))
    for _, call in calls_of(script):
        if call.asked is None:
            starts = MAX_ATTEMPTS if TOOLS[call.tool].retry_safe else 1
            deaths += min(call.arguments.dies_through_start, starts)
    return deaths


def _bounds(script: Script, calls: tuple[ForetoldCall, ...]) -> Iterable[Bound]:
    steps = _steps(script)
    if any(isinstance(step, Kill) for step in steps):
        yield "model_attempts"
    if any(call.starts == MAX_ATTEMPTS and call.source == "unknown" for call in calls):
        yield "tool_starts"
    if any(isinstance(step, Fail) and step.times is None and step.retryable for step in steps):
        yield "provider_attempts"
    if any(isinstance(step, Cut) and step.times is None for step in steps):
        yield "truncated_replies"
    if any(isinstance(step, Empty) and step.times is None for step in steps):
        yield "empty_replies"


def _check_failures(script: Script, retry_attempts: int) -> None:
    for step in _steps(script):
        if isinstance(step, Fail) and step.times is not None and step.times >= retry_attempts:
            raise ValueError(
                f"{script.task}: {step.times} failures pass only with more than {retry_attempts} attempts; "
                "a call that must fail says times: null"
            )
