"""Removes the containers of an owner that is gone.

Runs as a process of its own, like `guard.py` and for the same reason: after SIGKILL of the owner nobody else is
left to do it. Testcontainers' own reaper is a second image that must be fetched, and wants the engine's socket
mounted into it; this one needs neither. What a killed guard leaves, the next start sweeps.

A container's label names its owner: boot, process namespace, process and its start time. Only who shares the first
two can tell whether it lives; containers of other machines at the same engine are left alone.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from pathlib import Path
from typing import Final

from noeta.testing.postgres.engine import NoEngine, asked_engine, one_line
from noeta.testing.postgres.guard import is_alive, started_at, wait_until_gone

OWNER_LABEL: Final = "noeta.owner"
# A create that was under way when its owner died lands a little later.
LATE_SECONDS: Final = 2.0
ENGINE_AWAY_SECONDS_MAX: Final = 60.0
REMOVE_SECONDS_MAX: Final = 60
_GONE: Final = frozenset({404, 409})  # no such container; its removal is already under way


def fresh_label() -> str:
    """A label for one container of this process."""
    return f"{_place()}/{os.getpid()}/{started_at(os.getpid())}/{secrets.token_hex(4)}"


def has_dead_owner(label: str) -> bool:
    """Whether the owner lived where we are and is gone."""
    parts = label.split("/")
    if len(parts) != 4 or parts[0] != _place() or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return False
    return not is_alive(int(parts[1]), int(parts[2]))


def remove_containers(label: str) -> int:
    """Remove every container of this label, running or not, with its volumes; how many there were.

    Raises:
        NoEngine: the engine does not answer, or refused.
    """
    from docker.errors import APIError

    with asked_engine(REMOVE_SECONDS_MAX) as client:
        # Not through `containers.list`: that reads each one again, and it may be gone by then.
        found = client.api.containers(all=True, filters={"label": f"{OWNER_LABEL}={label}"})
        for one in found:
            try:
                client.api.remove_container(one["Id"], force=True, v=True)
            except APIError as error:
                if error.status_code not in _GONE:
                    raise NoEngine(f"container {one['Id'][:12]} cannot be removed: {one_line(error)}") from error
    return len(found)


def sweep_containers() -> int:
    """Remove what killed owners of this machine left when their guards were killed too; how many there were."""
    with asked_engine(REMOVE_SECONDS_MAX) as client:
        listed = client.api.containers(all=True, filters={"label": OWNER_LABEL})
    labels = {str(one["Labels"][OWNER_LABEL]) for one in listed}
    return sum(remove_containers(label) for label in labels if has_dead_owner(label))


def watch(owner: int, label: str) -> None:
    """Wait until the owner is gone, then remove what it left, until nothing has come for a while."""
    wait_until_gone(owner)
    quiet_at = time.monotonic() + LATE_SECONDS
    give_up_at = time.monotonic() + ENGINE_AWAY_SECONDS_MAX
    while time.monotonic() < min(quiet_at, give_up_at):
        try:
            removed = remove_containers(label)
        except NoEngine:
            quiet_at = time.monotonic() + LATE_SECONDS  # it may be restarting, with our container in it
        else:
            if removed:
                quiet_at = time.monotonic() + LATE_SECONDS
        time.sleep(0.1)


def _place() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{Path('/proc/self/ns/pid').readlink()}"


def main() -> None:
    """Of the guard's process: arguments are the owner's id and the label."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    os.chdir("/")
    watch(owner=int(sys.argv[1]), label=sys.argv[2])
