"""Runs every probe, in the order in which a reader asks: code, database, processes, machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from noeta.chaos.doctor.finding import Examined
from noeta.chaos.doctor.machine import machine
from noeta.chaos.doctor.postgres import postgres
from noeta.chaos.doctor.processes import processes
from noeta.chaos.doctor.programs import programs


def examine(environ: Mapping[str, str], runs_dir: Path) -> Examined:
    return Examined((*programs(), *postgres(environ), *processes(), *machine(runs_dir)))
