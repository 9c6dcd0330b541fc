"""`noeta sim`: the same workers in one process, under a seeded scheduler and a clock that costs nothing."""

from noeta.commands.sim.entry import HARNESS_ERROR, app

__all__ = ["HARNESS_ERROR", "app"]
