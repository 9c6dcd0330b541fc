"""Retries of a provider error inside one model call: how many and how long apart. Keeps: bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_MAX_ATTEMPTS: Final = 9
BACKOFF_SECONDS_MAX: Final = 30.0
BACKOFF_SECONDS_FIRST: Final = 0.5


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most ``max_attempts`` requests, waiting twice as long after each failure, up to a ceiling (seconds)."""

    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    first_seconds: float = BACKOFF_SECONDS_FIRST
    max_seconds: float = BACKOFF_SECONDS_MAX

    def delay_seconds(self, failures: int) -> float:
        """How long to wait after this many failures in a row; the exponent is capped, so it never overflows."""
        return min(self.max_seconds, self.first_seconds * 2.0 ** min(failures - 1, 60))
