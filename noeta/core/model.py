"""What the runtime asks a model and what it gets back.

The request is built from the log alone, so the same log gives the same bytes on every worker.
Keeps: same-request.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from noeta.core import codec
from noeta.core.ids import sha256_bytes


class UserSaid(msgspec.Struct, frozen=True, tag="user", tag_field="role"):
    """What a person, or the runtime on its own behalf, told the model."""

    text: str


class CallMade(msgspec.Struct, frozen=True):
    """A tool call as the model wrote it, with the id the log minted for it."""

    id: str
    tool: str
    input: Any


class ModelSaid(msgspec.Struct, frozen=True, tag="assistant", tag_field="role"):
    """What the model answered."""

    text: str
    calls: tuple[CallMade, ...] = ()


class ToolAnswered(msgspec.Struct, frozen=True, tag="tool", tag_field="role"):
    """The result of one call."""

    call_id: str
    output: str
    is_error: bool = False


Said = UserSaid | ModelSaid | ToolAnswered


class ModelRequest(msgspec.Struct, frozen=True):
    """One request: the agent's instructions, its tools by name, and all that was said, in order."""

    agent: str
    system: str
    tools: tuple[str, ...]
    said: tuple[Said, ...]

    def canonical(self) -> bytes:
        """The bytes whose hash ``ModelCalled`` records."""
        return codec.canonical(self)

    def hash(self) -> str:
        """Hex SHA-256 of the canonical bytes."""
        return sha256_bytes(self.canonical())

    def engine_hash(self) -> str:
        """Hex SHA-256 of what does not come from the log: the agent, its instructions, its tools."""
        return sha256_bytes(codec.canonical((self.agent, self.system, self.tools)))


class RequestedCall(msgspec.Struct, frozen=True):
    """A tool call in a reply; ``provider_id`` is the provider's own id, which may repeat between turns."""

    tool: str
    input: Any
    provider_id: str = ""


class ModelReply(msgspec.Struct, frozen=True):
    """A reply. ``stop``: ``end``, ``tool_use`` or ``max_tokens`` (cut at the output limit)."""

    text: str = ""
    calls: tuple[RequestedCall, ...] = ()
    stop: str = "end"


class ProviderError(Exception):
    """The provider could not answer. ``retryable``: asking again may help."""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class Provider(Protocol):
    """A model behind some wire."""

    def call(self, request: ModelRequest, *, attempt: int) -> ModelReply:
        """Ask once. ``attempt`` counts the requests of this one model call from 1, as clients tell servers.

        Raises:
            ProviderError.
        """
        ...
