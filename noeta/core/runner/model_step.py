"""One model call: the retries inside it, and the edge where the model's words come in."""

from __future__ import annotations

import logging

from noeta.core import codec, limits
from noeta.core.errors import BadInput
from noeta.core.events import ModelReplied, ToolCall
from noeta.core.ids import call_id
from noeta.core.model import ModelReply, ModelRequest, ProviderError
from noeta.core.runner.engine import Engine
from noeta.core.runner.lease import Held
from noeta.core.tool import StepCancelled

_log = logging.getLogger("noeta.runner")


def ask(engine: Engine, held: Held, request: ModelRequest) -> ModelReply:
    """Ask the provider, again after retryable errors, at most ``engine.retry.max_attempts`` times.

    Keeps: bounded. These retries are not ``ModelCalled`` entries: they belong to one call.

    Raises:
        ProviderError: the last one.
        StepCancelled: the claim was lost, or the worker stops, while waiting to ask again.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            return engine.provider.call(request, attempt=attempt)
        except ProviderError as error:
            if not error.retryable or attempt >= engine.retry.max_attempts:
                raise
            problem = f"{error}"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            if attempt >= engine.retry.max_attempts:
                raise ProviderError(problem) from error
        delay = engine.retry.delay_seconds(attempt)
        _log.warning(
            "task %s: the model call failed (attempt %d of %d, again in %g s): %s",
            held.claim.task_id,
            attempt,
            engine.retry.max_attempts,
            delay,
            problem,
        )
        if held.cancelled.wait(delay):
            raise StepCancelled


def replied(reply: ModelReply, seq: int) -> ModelReplied:
    """The entry of a reply that will stand at ``seq``: texts escaped, call ids minted.

    Calls of a reply that was cut at its output limit are dropped: their input may be cut too.

    Raises:
        ProviderError: the reply holds something no log can keep; asking again would not help.
    """
    calls = () if reply.stop == "max_tokens" else reply.calls
    event = ModelReplied(
        codec.escape_text(reply.text),
        tuple(
            ToolCall(
                call_id(seq, i),
                codec.escape_text(call.tool),
                codec.escape(call.input),
                codec.escape_text(call.provider_id),
            )
            for i, call in enumerate(calls)
        ),
        reply.stop,
    )
    try:
        codec.encode("reply", event, bytes_max=limits.ITEM_BYTES_MAX)
    except BadInput as error:
        raise ProviderError(f"the reply cannot be recorded: {error}", retryable=False) from error
    return event
