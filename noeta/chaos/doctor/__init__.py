"""Says what this machine can do, by trying it: every finding is a probe with a deadline that leaves nothing behind."""

from noeta.chaos.doctor.examine import examine
from noeta.chaos.doctor.finding import CHECK, CLUSTER, JOBS, SIM, Examined, Finding, State

__all__ = ["CHECK", "CLUSTER", "JOBS", "SIM", "Examined", "Finding", "State", "examine"]
