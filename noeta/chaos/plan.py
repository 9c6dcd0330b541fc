"""The plan of a run, from its seed alone: workload, reserve and faults. The same seed gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from noeta.chaos.asked import Asked
from noeta.chaos.config import Config
from noeta.chaos.evidence_dir import SCHEDULE, WORKLOAD, RunDir
from noeta.chaos.generate import generate
from noeta.chaos.handed_over import hand_over
from noeta.chaos.profiles import STORM, StormProfile
from noeta.chaos.schedule import Schedule, to_json
from noeta.core.errors import BadInput
from scripted_model import Workload


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to happen. ``schedule`` is written down whole, also the kinds that are refused on this machine.
    ``left_out``: faults of a simulated execution that no real process can suffer, by id, each with the reason; None:
    the plan is no such execution."""

    workload: Workload
    reserve: Workload
    schedule: Schedule
    required: Mapping[str, int]
    left_out: Mapping[str, str] | None = None

    def write(self, run_dir: RunDir) -> None:
        """``schedule.json`` and ``workload.json`` (the workload and its reserve)."""
        run_dir.write_text(SCHEDULE, to_json(self.schedule))
        run_dir.write_text(WORKLOAD, b"[" + self.workload.to_json() + b",\n" + self.reserve.to_json() + b"]\n")


def make_plan(asked: Asked, config: Config, profile: StormProfile = STORM) -> Plan:
    """The plan of what was asked.

    Raises:
        BadInput: a value that no plan can be made of.
    """
    base, reserve = profile.loads(asked.seed, asked.tasks, asked.lease_seconds, config.retry_attempts)
    if asked.faults and asked.schedule is not None and asked.schedule.play is not None:
        handed = hand_over(asked.schedule, lease_seconds=asked.lease_seconds)
        if handed.workers > config.workers:
            raise BadInput("--workers", f"the schedule has {handed.workers} workers, found {config.workers}")
        return Plan(handed.workload, reserve, handed.schedule, {}, dict(handed.refused))
    if not asked.faults:
        schedule = Schedule(str(asked.seed), ())
    elif asked.schedule is not None:
        schedule = asked.schedule
    else:
        schedule = generate(str(asked.seed), config)
    return Plan(base, reserve, schedule, profile.required_of(asked.seconds, asked.tasks))
