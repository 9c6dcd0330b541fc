"""Drives one claim: from a folded log to the next wait or the end."""

from noeta.core.runner.engine import Engine
from noeta.core.runner.lease import ClaimLost, Held, LeaseKeeper
from noeta.core.runner.runner import Outcome, Runner

__all__ = ["ClaimLost", "Engine", "Held", "LeaseKeeper", "Outcome", "Runner"]
