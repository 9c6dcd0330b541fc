"""A stand-in for a model whose words are known beforehand, for tests of an agent's tools.

It holds no state: which reply comes next is read off the request, so any worker may ask it, and again after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noeta.core.errors import BadInput
from noeta.core.model import ModelReply, ModelRequest, ModelSaid, ProviderError, RequestedCall


class Replies:
    """Implements ``noeta.core.model.Provider``: the first request of a task gets the first reply, and so on.

    A text is an answer; ``asks(…)`` is a reply that calls tools.

    Raises:
        BadInput: there is no reply, or one is neither.
    """

    def __init__(self, *replies: str | ModelReply) -> None:
        if not replies:
            raise BadInput("replies", "expected at least one, found none")
        for reply in replies:
            if not isinstance(reply, str | ModelReply):
                raise BadInput("replies", f"expected text or asks(…), found {type(reply).__name__}")
        self._replies = tuple(ModelReply(reply) if isinstance(reply, str) else reply for reply in replies)

    def call(self, request: ModelRequest, *, attempt: int) -> ModelReply:
        """The reply after those that the request shows were given.

        Raises:
            ProviderError: there is none left; asking again would not help.
        """
        place = sum(isinstance(said, ModelSaid) for said in request.said)
        if place >= len(self._replies):
            raise ProviderError(f"there are {len(self._replies)} replies, and all were given", retryable=False)
        return self._replies[place]


def asks(tool: str, input: Mapping[str, Any] | None = None) -> ModelReply:
    """A reply that calls one tool."""
    return ModelReply("", (RequestedCall(tool, dict(input or {})),), "tool_use")
