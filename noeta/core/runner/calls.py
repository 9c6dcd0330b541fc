"""Tool calls: running one, and deciding about one that its last owner left half done.

``recover_call`` asks in this order: the tool looks the outcome up; a tool that is safe to run again is started
again, up to three starts in all; otherwise the outcome is unknown and the model is told so.
Keeps: effect-at-most-once, bounded.
"""

from __future__ import annotations

import logging

from noeta.core import codec, ids, texts
from noeta.core.events import ToolFinished
from noeta.core.fold import CallState
from noeta.core.runner.engine import Engine
from noeta.core.runner.lease import ClaimLost, Held
from noeta.core.tool import MAX_ATTEMPTS, OUTPUT_BYTES_MAX, Recovers, StepCancelled, ToolResult
from noeta.core.world import World

_log = logging.getLogger("noeta.runner")


class CallContext:
    """Implements ``noeta.core.tool.ToolContext``."""

    def __init__(self, world: World, held: Held, call_id: str, start: int) -> None:
        self._world = world
        self._held = held
        self.task_id = held.claim.task_id
        self.call_id = call_id
        self.start = start

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


def run_call(engine: Engine, world: World, held: Held, call: CallState) -> ToolFinished:
    """Run the tool of a call whose ``ToolStarted`` is durable.

    Raises:
        ClaimLost: the lease may be over; the tool was not run.
        StepCancelled: the tool stopped half way because the step was cancelled.
    """
    held.check()
    tool = engine.tools[call.call.tool]
    ctx = CallContext(world, held, call.call.id, call.starts)
    try:
        result = _checked(tool.run(call.call.input, ctx))
    except (ClaimLost, StepCancelled):
        raise
    except Exception as error:
        result = ToolResult(f"{type(error).__name__}: {error}", is_error=True)
    return _finished(call, result, "ran")


def recover_call(engine: Engine, world: World, held: Held, call: CallState) -> ToolFinished | None:
    """The result of an interrupted call, or None if it is to be started again."""
    tool = engine.tools.get(call.call.tool)
    world.point("recover.call", task=held.claim.task_id, call=call.call.id, starts=call.starts)
    looks_up: object = tool
    if isinstance(looks_up, Recovers):
        result = _look_up(looks_up, call, CallContext(world, held, call.call.id, call.starts))
        if result is not None:
            return _finished(call, result, "recovered")
    if tool is not None and tool.flags.retry_safe and call.starts < MAX_ATTEMPTS:
        return None
    return ToolFinished(call.call.id, texts.OUTCOME_UNKNOWN, is_error=True, source="unknown")


def unknown_tool(call: CallState) -> ToolFinished:
    """The result of a call to a tool that does not exist: it was never started."""
    return ToolFinished(call.call.id, texts.UNKNOWN_TOOL.format(tool=call.call.tool), is_error=True)


def _look_up(tool: Recovers, call: CallState, ctx: CallContext) -> ToolResult | None:
    try:
        found = tool.recover(call.call.input, ctx)
        return None if found is None else _checked(found)
    except (ClaimLost, StepCancelled):
        raise
    except Exception:
        # It cannot tell what happened: the next rule decides.
        _log.warning("recover of %s failed for call %s", call.call.tool, ctx.idempotency_key, exc_info=True)
        return None


def _checked(result: object) -> ToolResult:
    if not isinstance(result, ToolResult):
        raise TypeError(f"the tool returned {type(result).__name__}, expected ToolResult")
    return result


def _finished(call: CallState, result: ToolResult, source: str) -> ToolFinished:
    return ToolFinished(call.call.id, _cut(codec.escape_text(str(result.output))), bool(result.is_error), source)


def _cut(output: str) -> str:
    """The output, or as much of it as fits once it is encoded: control characters take six bytes each."""
    size = codec.encoded_bytes(output)
    if size <= OUTPUT_BYTES_MAX:
        return output
    kept = output
    while codec.encoded_bytes(kept) > OUTPUT_BYTES_MAX:
        kept = kept[: int(len(kept) * OUTPUT_BYTES_MAX / codec.encoded_bytes(kept) * 0.99)]
    return f"{kept}\n[cut: the output had {len(output)} characters, {len(kept)} are kept]"
