"""What a person asked of `noeta cluster`: read from options and environment, refused before anything is done."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from noeta.chaos.config import Config
from noeta.chaos.schedule import Schedule, from_json
from noeta.chaos.seeds import SEED_MAX
from noeta.core.errors import BadInput

SEED, TASKS, SECONDS = "NOETA_CLUSTER_SEED", "NOETA_CLUSTER_TASKS", "NOETA_CLUSTER_SECONDS"
TASKS_DEFAULT: Final = 90
SECONDS_DEFAULT: Final = 75.0
WORKERS_DEFAULT: Final = 4
CONCURRENCY_DEFAULT: Final = 3
LEASE_DEFAULT: Final = 1.0
RETRY_FIRST_SECONDS: Final = 0.005
"""A model call that fails nine times is over in half a second: longer, and three strikes hit it every time."""
CAMPAIGN_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Asked:
    """One run, as asked. ``given``: what the line that repeats the run must say beside the seed."""

    seed: int
    tasks: int = TASKS_DEFAULT
    seconds: float = SECONDS_DEFAULT
    workers: int = WORKERS_DEFAULT
    concurrency: int = CONCURRENCY_DEFAULT
    lease_seconds: float = LEASE_DEFAULT
    runs_dir: Path = Path("runs")
    schedule: Schedule | None = None
    faults: bool = True
    keep: bool = False
    mutant: str | None = None
    given: Mapping[str, str] = field(default_factory=dict)

    def config(self, run_dir: Path, address: str = "", schema: str | None = None) -> Config:
        """The harness's configuration.

        Raises:
            BadInput: a value out of its bounds.
        """
        return Config(
            seed=str(self.seed),
            tasks=self.tasks,
            seconds=self.seconds,
            run_dir=run_dir,
            schema=schema,
            address=address,
            workers=self.workers,
            concurrency=self.concurrency,
            lease_seconds=self.lease_seconds,
            poll_seconds=min(0.2, self.lease_seconds),
            retry_first_seconds=RETRY_FIRST_SECONDS,
        )


def whole(name: str, text: str, low: int, high: int) -> int:
    """A whole number between two others, both allowed.

    Raises:
        BadInput: names the option or variable.
    """
    try:
        number = int(text)
    except ValueError:
        raise BadInput(name, f"expected a whole number from {low} to {high}, found {text!r}") from None
    if not low <= number <= high:
        raise BadInput(name, f"expected a whole number from {low} to {high}, found {number}")
    return number


def span(name: str, text: str, low: float, high: float) -> float:
    """A number of seconds.

    Raises:
        BadInput: names the option or variable.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        raise BadInput(name, f"expected a number of seconds from {low:g} to {high:g}, found {text!r}")
    return number


def seed_of(text: str) -> int:
    """A root seed.

    Raises:
        BadInput.
    """
    return whole(SEED, text, 0, SEED_MAX)


def seeds_of(text: str) -> list[int]:
    """A campaign's seeds: ``1..20``, or ``3,5,9``.

    Raises:
        BadInput.
    """
    first, dots, last = text.partition("..")
    if dots:
        low, high = whole("--seeds", first, 0, SEED_MAX), whole("--seeds", last, 0, SEED_MAX)
        if not low <= high < low + CAMPAIGN_MAX:
            raise BadInput("--seeds", f"from 1 to {CAMPAIGN_MAX} seeds in rising order, found {text!r}")
        return list(range(low, high + 1))
    seeds = [whole("--seeds", part, 0, SEED_MAX) for part in text.split(",")]
    if len(set(seeds)) != len(seeds):
        raise BadInput("--seeds", f"each seed once, found {text!r}")
    return seeds


def read_schedule(path: Path) -> Schedule:
    """A schedule from a file.

    Raises:
        BadInput: it cannot be read, or is none.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise BadInput("--schedule", f"cannot read {path}: {error.strerror}") from error
    return from_json(text)
