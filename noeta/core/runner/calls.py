"""Tool calls: running one, and deciding about one that its last owner left half done.

``recover_call`` asks in this order: the tool looks the outcome up; a tool that is safe to run again is started
again, up to three starts in all; otherwise the outcome is unknown and the model is told so.
Keeps: effect-at-most-once, bounded.
"""

from __future__ import annotations

import logging

from noeta.core import ids, texts
from noeta.core.events import ToolFinished
from noeta.core.fold import CallState, TaskState
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
        outcome = tool.run(call.call.input, CallContext(world, held, state, call))
        return record(engine, state, call, outcome, "ran")
    except ClaimLost:
        raise
    except Exception as error:
        if isinstance(error, StepCancelled) and held.cancelled.is_set():
            raise
        return Recorded(finished(call, f"{type(error).__name__}: {error}", is_error=True, source="ran"))


def recover_call(engine: Engine, world: World, held: Held, state: TaskState, call: CallState) -> Recorded | None:
    """The result of an interrupted call, or None if it is to be started again."""
    tool = engine.tools.get(call.call.tool)
    world.point("recover.call", task=held.claim.task_id, call=call.call.id, starts=call.starts)
    looks_up: object = tool
    if isinstance(looks_up, Recovers):
        found = _look_up(engine, looks_up, state, call, CallContext(world, held, state, call))
        if found is not None:
            return found
    if tool is not None and tool.flags.retry_safe and call.starts < MAX_ATTEMPTS:
        return None
    return Recorded(ToolFinished(call.call.id, texts.OUTCOME_UNKNOWN, is_error=True, source="unknown"))


def unknown_tool(call: CallState) -> ToolFinished:
    """The result of a call to a tool that does not exist: it was never started."""
    return ToolFinished(call.call.id, texts.UNKNOWN_TOOL.format(tool=call.call.tool), is_error=True)


def _look_up(engine: Engine, tool: Recovers, state: TaskState, call: CallState, ctx: CallContext) -> Recorded | None:
    try:
        found = tool.recover(call.call.input, ctx)
        return None if found is None else record(engine, state, call, found, "recovered")
    except (ClaimLost, StepCancelled):
        raise
    except Exception:
        # It cannot tell what happened: the next rule decides.
        _log.warning("recover of %s failed for call %s", call.call.tool, ctx.idempotency_key, exc_info=True)
        return None
