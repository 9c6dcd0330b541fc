"""A tool call as the runner makes it, without a store: what the tool returns is what is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from noeta.core.jobs import Jobs
from noeta.core.tool import CronState


@dataclass(frozen=True)
class Ctx:
    """Implements ``noeta.core.tool.ToolContext``."""

    task_id: str = "t"
    call_id: str = "3-0"
    start: int = 1
    started_at: float = 1_700_000_000.5
    parent_task_id: str | None = None
    root_task_id: str = "t"
    subtask_depth: int = 0
    interactive: bool = False
    jobs: Jobs | None = None
    crons: Mapping[str, CronState] = field(default_factory=dict)
    cancelled: bool = False

    @property
    def idempotency_key(self) -> str:
        return f"{self.task_id}:{self.call_id}"

    def wait(self, seconds: float) -> bool:
        return False

    def point(self, name: str, **facts: object) -> None:
        pass
