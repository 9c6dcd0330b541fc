"""Strikes the workers and the database of a storm, and undoes every strike."""

from noeta.chaos.nemesis.database_faults import NOT_OURS, DatabaseServer
from noeta.chaos.nemesis.deaths import NemesisFailed
from noeta.chaos.nemesis.nemesis import Nemesis
from noeta.chaos.nemesis.record import CRASHED, SELF_KILLED, FaultLine, read_faults
from noeta.chaos.nemesis.result import NemesisResult

__all__ = [
    "CRASHED",
    "NOT_OURS",
    "SELF_KILLED",
    "DatabaseServer",
    "FaultLine",
    "Nemesis",
    "NemesisFailed",
    "NemesisResult",
    "read_faults",
]
