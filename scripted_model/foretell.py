"""What must be true of a scripted task at the end, said before it runs.

Answers and outcomes hold whatever happens to workers: results of tools and the place where messages land
change nothing. How a *call* ends (``ran``, ``recovered``, ``unknown``) is foretold for a run in which nothing
but the script kills workers; under faults from outside any call that does not opt in may end unknown, and any
turn may end by a bound that those faults filled: the laws over log and history judge that, not this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from noeta.core import texts
from noeta.core.retry import DEFAULT_MAX_ATTEMPTS
from noeta.core.tool import MAX_ATTEMPTS
from scripted_model.course import answer_at
from scripted_model.script import (
    TOOLS,
    Call,
    Cut,
    Empty,
    Fail,
    Kill,
    Say,
    Script,
    Step,
    Tools,
    calls_of,
    check,
)
from scripted_model.workload import ScheduledMessage, ScriptedTask, Workload

Bound = Literal["model_attempts", "tool_starts", "provider_attempts", "truncated_replies", "empty_replies"]


@dataclass(frozen=True, slots=True)
class ForetoldCall:
    """One call, which the log must hold exactly once. ``source`` as in ``ToolFinished``; ``starts``: how many."""

    tag: str
    tool: str
    turn: int
    source: Literal["ran", "recovered", "unknown"]
    is_error: bool
    starts: int


@dataclass(frozen=True, slots=True)
class ForetoldTurn:
    """How a turn ends: with an ``answer``, with none, or failed for a ``reason`` of ``noeta.core.texts``."""

    number: int
    ends: Literal["answer", "no_answer", "failed"]
    reason: str | None
    answer: str | None


@dataclass(frozen=True, slots=True)
class Foretold:
    """What must be true of one task at the end.

    ``waiting``: an interactive task after its last turn. ``answer`` and ``reason`` are those of the last
    turn. ``message_keys`` must each be taken exactly once; ``refusable_keys`` as well, unless the post was
    refused because the task had ended. ``bounds``: the retry bounds this task reaches all by itself.
    ``deaths``: how many workers it kills if nothing else does.
    """

    task: str
    kind: str
    outcome: Literal["completed", "failed", "waiting"]
    reason: str | None
    answer: str | None
    turns: tuple[ForetoldTurn, ...]
    calls: tuple[ForetoldCall, ...]
    message_keys: tuple[str, ...]
    refusable_keys: tuple[str, ...]
    bounds: tuple[Bound, ...]
    deaths: int

    @property
    def calls_per_tool(self) -> dict[str, int]:
        """How many calls to each tool the log must hold."""
        return dict(sorted(Counter(call.tool for call in self.calls).items()))


def foretell(
    task: ScriptedTask,
    messages: Iterable[ScheduledMessage] = (),
    *,
    retry_attempts: int = DEFAULT_MAX_ATTEMPTS,
) -> Foretold:
    """What must be true of this task once it and these messages are done with.

    Raises:
        ValueError: a provider failure that should pass would exhaust ``retry_attempts``, or a turn has no
        message.
    """
    script = task.script
    check(script)
    _check_failures(script, retry_attempts)
    own = [message for message in messages if message.task == task.id]
    started = [message.turn for message in own if message.kind == "turn"]
    if started != list(range(2, len(script.turns) + 1)):
        raise ValueError(f"{task.id}: one message, in order, starts each turn after the first, found {started}")
    turns = tuple(_turn(script, number) for number in range(1, len(script.turns) + 1))
    last = turns[-1]
    calls = tuple(_call(turn, call) for turn, call in calls_of(script))
    if script.interactive:
        outcome: Literal["completed", "failed", "waiting"] = "waiting"
    else:
        outcome = "failed" if last.ends == "failed" else "completed"
    return Foretold(
        task=task.id,
        kind=script.kind,
        outcome=outcome,
        reason=last.reason,
        answer=last.answer,
        turns=turns,
        calls=calls,
        message_keys=tuple(message.key for message in own if not message.may_be_refused),
        refusable_keys=tuple(message.key for message in own if message.may_be_refused),
        bounds=tuple(_bounds(script, calls, retry_attempts)),
        deaths=_deaths(script),
    )


def foretell_all(load: Workload) -> tuple[Foretold, ...]:
    """Every task of a workload, in order."""
    return tuple(foretell(task, load.messages_of(task.id), retry_attempts=load.retry_attempts) for task in load.tasks)


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


def _call(turn: int, call: Call) -> ForetoldCall:
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


def _steps(script: Script) -> list[Step]:
    return [step for turn in script.turns for step in turn.steps]


def _deaths(script: Script) -> int:
    deaths = texts.MAX_MODEL_ATTEMPTS * sum(isinstance(step, Kill) for step in _steps(script))
    for _, call in calls_of(script):
        starts = MAX_ATTEMPTS if TOOLS[call.tool].retry_safe else 1
        deaths += min(call.arguments.dies_through_start, starts)
    return deaths


def _bounds(script: Script, calls: tuple[ForetoldCall, ...], retry_attempts: int) -> Iterable[Bound]:
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
