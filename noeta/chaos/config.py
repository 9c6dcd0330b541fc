"""What a storm is asked to be: its size, its workers, where it leaves its evidence.

Plain data, checked once. Reading the environment is the command's work; nothing here knows a variable's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from noeta.core.errors import BadInput
from noeta.core.lower import check_lease
from noeta.core.retry import DEFAULT_MAX_ATTEMPTS

WORKERS_MAX: Final = 64
CONCURRENCY_MAX: Final = 64
SECONDS_MAX: Final = 86_400.0
TASKS_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class Config:
    """One storm. Spans in seconds; ``address``: of the store, as `noeta worker --store` takes it; it may hold a
    password, so it is never shown and never written down. ``schema``: None for a store that has none.

    ``seconds``: how long the storm blows. ``retry_attempts``: requests of one model call, as the workload
    counts on. ``retry_first_seconds``: the pause after the first failed request, doubled up to sixteen times.

    Raises:
        BadInput: names the field, its limit and the value.
    """

    seed: str
    tasks: int
    seconds: float
    run_dir: Path
    schema: str | None
    address: str = field(repr=False)
    queue: str = "storm"
    workers: int = 4
    concurrency: int = 4
    lease_seconds: float = 1.0
    poll_seconds: float = 0.2
    grace_seconds: float = 3.0
    retry_attempts: int = DEFAULT_MAX_ATTEMPTS
    retry_first_seconds: float = 0.02

    def __post_init__(self) -> None:
        check_lease(self.lease_seconds)
        _between("tasks", self.tasks, 1, TASKS_MAX)
        _between("seconds", self.seconds, 1.0, SECONDS_MAX)
        # With one worker nobody could take over while it is paused.
        _between("workers", self.workers, 2, WORKERS_MAX)
        _between("concurrency", self.concurrency, 1, CONCURRENCY_MAX)
        _between("poll_seconds", self.poll_seconds, 0.01, self.lease_seconds)
        _between("grace_seconds", self.grace_seconds, 0.1, 60.0)
        _between("retry_attempts", self.retry_attempts, 2, 100)
        _between("retry_first_seconds", self.retry_first_seconds, 0.0, 60.0)

    @property
    def worker_names(self) -> tuple[str, ...]:
        """``w1`` and on: the processes, each with its loops ``w1-1`` and on."""
        return tuple(f"w{number}" for number in range(1, self.workers + 1))

    def loops_of(self, name: str) -> tuple[str, ...]:
        """The names that the claims of this process carry."""
        return tuple(f"{name}-{number}" for number in range(1, self.concurrency + 1))

    def facts(self) -> Mapping[str, Any]:
        """What ``run.json`` tells of it: everything but the address of the store."""
        return {
            "seed": self.seed,
            "tasks": self.tasks,
            "seconds": self.seconds,
            "schema": self.schema,
            "queue": self.queue,
            "workers": self.workers,
            "concurrency": self.concurrency,
            "lease_seconds": self.lease_seconds,
            "poll_seconds": self.poll_seconds,
            "grace_seconds": self.grace_seconds,
            "retry_attempts": self.retry_attempts,
            "retry_first_seconds": self.retry_first_seconds,
        }


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise BadInput(name, f"from {low:g} to {high:g}, found {value!r}")
