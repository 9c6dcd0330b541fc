"""Tool calls: letting one start, running it, and deciding about one that its last owner left half done.

``recover_call`` asks in this order: the tool looks the outcome up; a tool that is safe to run again is started
again, up to three starts in all; otherwise the outcome is unknown: the model is told so, or a person is asked.
Keeps: effect-at-most-once, bounded.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from enum import Enum

from noeta.core import ids, texts
from noeta.core.events import ToolFinished
from noeta.core.fold import Approval, CallState, TaskState
from noeta.core.gates import Allow, Decision, GatedCall, decide
from noeta.core.runner.engine import Engine
from noeta.core.runner.lease import ClaimLost, Held
from noeta.core.runner.outcome import Recorded, finished, record
from noeta.core.tool import MAX_ATTEMPTS, Recovers, StepCancelled
from noeta.core.world import World

_log = logging.getLogger("noeta.runner")


class CallContext:
    """Implements ``noeta.core.tool.ToolContext``."""

    def __init__(self, world: World, held: Held, state: TaskState, call: CallState) -> None:
        self._world = world
        self._held = held
        self.task_id = state.task_id
        self.call_id = call.call.id
        self.start = call.starts
        self.started_at = call.started_at / ids.MICROS_PER_SECOND
        self.parent_task_id = state.parent_task_id
        self.root_task_id = state.root_task_id
        self.subtask_depth = state.subtask_depth
        self.interactive = state.interactive
        self.jobs = held.jobs
        self.crons = state.crons

    @property
    def idempotency_key(self) -> str:
        return ids.idempotency_key(self.task_id, self.call_id)

    @property
    def cancelled(self) -> bool:
        return self._held.cancelled.is_set()

    def wait(self, seconds: float) -> bool:
        return self._held.cancelled.wait(seconds)

    def point(self, name: str, **facts: object) -> None:
        self._world.point(name, task=self.task_id, call=self.call_id, start=self.start, **facts)


def run_call(engine: Engine, world: World, held: Held, state: TaskState, call: CallState) -> Recorded:
    """Run the tool of a call whose ``ToolStarted`` is durable.

    Raises:
        ClaimLost: the lease may be over; the tool was not run.
        StepCancelled: the tool stopped half way because the step was cancelled.
    """
    held.check()
    tool = engine.tools[call.call.tool]
    try:
        # A copy: what a tool changes in its input must reach neither the log nor the next request.
        outcome = tool.run(copy.deepcopy(call.input), CallContext(world, held, state, call))
        return record(engine, state, call, outcome, "ran", has_jobs=held.jobs is not None)
    except ClaimLost:
        raise
    except Exception as error:
        if isinstance(error, StepCancelled) and held.cancelled.is_set():
            raise
        return Recorded(finished(call, f"{type(error).__name__}: {error}", is_error=True, source="ran"))


class Undecided(Enum):
    """What is known of an interrupted call that nobody could look up."""

    RUN_AGAIN = "run_again"
    """It is safe to start again."""
    UNKNOWN = "unknown"
    """Nobody can tell what it did."""


def gate(engine: Engine, state: TaskState, call: CallState) -> Decision:
    """Whether the call may start, as the agent's gates have it."""
    tool = engine.tools[call.call.tool]
    gated = GatedCall(state.task_id, state.agent, call.call.id, call.call.tool, call.input, tool.flags)
    return decide(engine.gates, gated)


def may_go_on(engine: Engine, state: TaskState, call: CallState, *, starts_again: bool) -> bool:
    """Whether the gates allow a call that was started, as they are now, so that its task may go on without a person.
    Of one that is not started again, a person's approval stands, and what no tool can do any more is not asked."""
    if not starts_again and (call.approval is Approval.GIVEN or call.call.tool not in engine.tools):
        return True
    return isinstance(gate(engine, state, call), Allow)


def is_for_a_person(engine: Engine, state: TaskState, found: Sequence[tuple[CallState, Recorded | Undecided]]) -> bool:
    """Whether a person is to say how it goes on: nobody can tell what some call did, or the gates do not allow by now
    what was started. ``found``: what is known of the interrupted calls. Nobody speaks to a sub-agent: it is told."""
    if state.parent_task_id is not None or not found:
        return False
    decided = {call.call.id: recorded for call, recorded in found}
    return Undecided.UNKNOWN in decided.values() or not all(
        may_go_on(engine, state, call, starts_again=decided.get(call.call.id) is Undecided.RUN_AGAIN)
        for call in state.calls.values()
        if call.starts
    )


def unknown(call: CallState) -> Recorded:
    """The result of a call whose outcome nobody can tell: the model looks for itself."""
    return Recorded(ToolFinished(call.call.id, texts.OUTCOME_UNKNOWN, is_error=True, source="unknown"))


def recover_call(engine: Engine, world: World, held: Held, state: TaskState, call: CallState) -> Recorded | Undecided:
    """The result of an interrupted call, if its tool can look it up; otherwise whether it is to be started again."""
    tool = engine.tools.get(call.call.tool)
    world.point("recover.call", task=held.claim.task_id, call=call.call.id, starts=call.starts)
    looks_up: object = tool
    if isinstance(looks_up, Recovers):
        found = _look_up(engine, looks_up, held, state, call, CallContext(world, held, state, call))
        if found is not None:
            return found
    if tool is not None and tool.flags.retry_safe and call.starts < MAX_ATTEMPTS:
        return Undecided.RUN_AGAIN
    return Undecided.UNKNOWN


def unknown_tool(call: CallState) -> ToolFinished:
    """The result of a call to a tool that does not exist: it was never started."""
    return ToolFinished(call.call.id, texts.UNKNOWN_TOOL.format(tool=call.call.tool), is_error=True)


def _look_up(
    engine: Engine, tool: Recovers, held: Held, state: TaskState, call: CallState, ctx: CallContext
) -> Recorded | None:
    try:
        found = tool.recover(copy.deepcopy(call.input), ctx)
        if found is None:
            return None
        return record(engine, state, call, found, "recovered", has_jobs=held.jobs is not None)
    except (ClaimLost, StepCancelled):
        raise
    except Exception:
        # It cannot tell what happened: the next rule decides.
        _log.warning("recover of %s failed for call %s", call.call.tool, ctx.idempotency_key, exc_info=True)
        return None
