"""What must be true of a scripted task at the end, said before it runs.

Answers and outcomes hold whatever happens to workers: results of tools and the place where messages land
change nothing. How a *call* ends (``ran``, ``recovered``, ``woken``, ``unknown``) is foretold for a run in which
nothing but the script kills workers; under faults from outside any call that does not opt in may end unknown (and
what it should have delegated is not born then), and any turn may end by a bound that those faults filled: the laws
over log and history judge that, not this module.

Sub-agents are foretold like any task, from the goal in their log; what may end them early stands in the tree above
them, which is foretold with the root.

Of what works in the background the model is told what came of it, and it goes on as it would have anyway: whether a
shell ended, was stopped or is lost with its worker changes no call and no answer, and neither does a cron table that
fires once or ten times. Only how many turns end is not foretold then: each end that finds the task at rest begins one,
and so does each firing. The same holds for parks: each is a rest more, and the calls and the answer stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from noeta.core import texts
from noeta.core.retry import DEFAULT_MAX_ATTEMPTS
from noeta.core.tool import MAX_ATTEMPTS
from scripted_model.course import answer_at
from scripted_model.foretell_calls import crons_of, foretell_call, jobs_of
from scripted_model.foretold import Bound, Foretold, ForetoldCall, ForetoldChild, ForetoldTurn, Outcome
from scripted_model.said_check import check_messages
from scripted_model.script import (
    SUBTASK_DEPTH_MAX,
    AwaitEvent,
    BadScript,
    Cron,
    Cut,
    Empty,
    Fail,
    Handback,
    Kill,
    Question,
    Say,
    Script,
    Shell,
    Step,
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
    talks = not kinds.isdisjoint({"turn", "note", "close"}) or _is_told(script) or _is_woken(script)
    return _foretold(
        task.id,
        script,
        depth=0,
        retry_attempts=retry_attempts,
        max_subtask_depth=max_subtask_depth,
        message_keys=tuple(m.key for m in needed if not m.may_be_refused),
        refusable_keys=tuple(m.key for m in needed if m.may_be_refused),
        own=own,
        turns_counted=not (script.interactive and talks) and not script.parks,
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
    calls = tuple(
        foretell_call(turn, call, own, may_delegate=may_delegate, parks=script.parks) for turn, call in calls_of(script)
    )
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
        deaths=_deaths(script, calls),
        cancel_keys=(
            *(message.key for message in own if message.kind == "cancel"),
            *([child_cancel_key(task_id)] if depth and _asks_people(script) else []),
        ),
        close_keys=tuple(message.key for message in own if message.kind == "close"),
        may_be_cancelled=may_be_cancelled,
        turns_counted=turns_counted,
        name=script.task,
        descendants=descendants,
        jobs=tuple(jobs_of(script)),
        crons=tuple(crons_of(script)),
        may_be_parked=script.parks,
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


def _is_woken(script: Script) -> bool:
    """Whether something of its own may begin a turn, or join one: a background shell that ends, a cron table."""
    return any(isinstance(call.asked, Shell | Cron) for _, call in calls_of(script))


def _asks_people(script: Script) -> bool:
    """Whether it waits for a person for as long as it takes."""
    asked = [call.asked for _, call in calls_of(script)]
    return any(isinstance(one, Question) and one.timeout_seconds is None for one in asked)


def _steps(script: Script) -> list[Step]:
    return [step for turn in script.turns for step in turn.steps]


def _deaths(script: Script, told: tuple[ForetoldCall, ...]) -> int:
    deaths = texts.MAX_MODEL_ATTEMPTS * sum(isinstance(step, Kill) for step in _steps(script))
    for (_, call), one in zip(calls_of(script), told, strict=True):
        deaths += min(call.arguments.dies_through_start, one.starts)
    return deaths


def _bounds(script: Script, calls: tuple[ForetoldCall, ...]) -> Iterable[Bound]:
    steps = _steps(script)
    if any(isinstance(step, Kill) for step in steps):
        yield "model_attempts"
    if any(call.starts == MAX_ATTEMPTS and call.source in ("unknown", "parked") for call in calls):
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
