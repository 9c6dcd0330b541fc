"""What the memory store keeps of one task."""

from __future__ import annotations

from dataclasses import dataclass, field

from noeta.core.store import Snapshot
from noeta.core.task import TaskRow


@dataclass(slots=True)
class MemoryItem:
    """One item of an inbox. A taken one loses its body and keeps its key."""

    number: int
    key: str | None
    body: str | None
    wake_key: str
    at: int
    taken_seq: int | None = None
    unread_at: int | None = None

    @property
    def unread(self) -> bool:
        return self.taken_seq is None and self.unread_at is None


@dataclass(slots=True)
class MemoryTask:
    """A task: its row, its log, its inbox, and the keys that the inbox has ever held."""

    row: TaskRow
    content_hash: str
    entries: list[tuple[int, int, str]] = field(default_factory=list)  # (epoch, at, body); seq is the place + 1
    items: list[MemoryItem] = field(default_factory=list)
    keys: dict[str, int] = field(default_factory=dict)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
