"""What a host gives the loops that drive its tasks."""

from __future__ import annotations

from typing import Any, Protocol

from noeta.core.runner import Engine
from noeta.runtime.dispatcher import Dispatcher


class WorkerRuntime(Protocol):
    """What a loop drives. Duck-typed besides: ``world``, ``process`` (shared by the loops of one process), ``jobs``
    (the process's `JobTable`, which its host closes; without one, tools can start no background jobs),
    ``resolve_engine(task)``, ``settle_subtasks_after_step(task_id)``, ``take_pending_prelude(task_id)``."""

    @property
    def engine(self) -> Engine: ...

    @property
    def event_log(self) -> Any: ...

    @property
    def content_store(self) -> Any: ...

    @property
    def dispatcher(self) -> Dispatcher: ...
