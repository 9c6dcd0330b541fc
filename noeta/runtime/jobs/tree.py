"""Finds and kills what descends from a process.

A pid alone names nobody: it may be given to a stranger as soon as its process is reaped. So a process is known by pid
and start time, and it is signalled through a descriptor that was opened before its start time was looked at again.
Linux only; the standard library only.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

SWEEPS_MAX: Final = 20
"""Looks for processes that are not stopped yet, before those that are found are killed all the same: one that forks
faster than it is found is caught by the next round."""

STAT_BYTES_MAX: Final = 4096
_DEAD: Final = b"ZX"


class Process(NamedTuple):
    """One process as /proc shows it. ``start``: clock ticks since boot."""

    pid: int
    start: int
    parent: int
    state: bytes

    @property
    def is_dead(self) -> bool:
        """It runs no more, and waits to be reaped."""
        return self.state in _DEAD


def look(pid: int) -> Process | None:
    """This process as it is now; None if there is none."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(file, STAT_BYTES_MAX)
    except OSError:
        return None  # it ended meanwhile
    finally:
        os.close(file)
    fields = text[text.rindex(b")") + 2 :].split()  # the name before it may hold anything
    return Process(pid, int(fields[19]), int(fields[1]), fields[0])


def everyone() -> dict[int, Process]:
    """All processes, by pid."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is five times slower here, and this is the hot path
        if name.isdigit() and (process := look(int(name))) is not None:
            found[process.pid] = process
    for process in list(found.values()):
        # Its parent ended while we looked, so that it has another one by now.
        if process.parent not in found and (again := look(process.pid)) is not None:
            found[process.pid] = again
    return found


def below(roots: Iterable[int], spare: Collection[int] = ()) -> list[Process]:
    """All that descend from ``roots``, which are not among them; ``spare`` and what descends from those are left out.
    The roots must be the caller, or children of it that it has not reaped: those ids are nobody else's."""
    processes = everyone()
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    todo = [processes[root] for root in roots if root in processes]
    while todo:
        parent = todo.pop()
        for child in children.get(parent.pid, ()):
            # A child is never older than its parent: then the parent's id was given away while we looked.
            if child.pid not in spare and child.start >= parent.start:
                found.append(child)
                todo.append(child)
    return found


def send(process: Process, number: int) -> bool:
    """Signal this very process, and never another one that got its pid; whether it was there to be signalled."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        now = look(process.pid)
        if now is None or now.start != process.start:
            return False
        signal.pidfd_send_signal(descriptor, number)
        return True
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(descriptor)


def kill_below(roots: Collection[int], spare: Collection[int] = ()) -> int:
    """Stop all that descend from ``roots`` until no new ones show up, then SIGKILL them; how many there were.

    Stopped first, because a process that is killed while its neighbours run may be replaced by one of them. Does not
    wait: whoever is their parent now has to reap them, and to look again.
    """
    stopped: set[tuple[int, int]] = set()
    found: list[Process] = []
    for _ in range(SWEEPS_MAX):
        found = [process for process in below(roots, spare) if not process.is_dead]
        fresh = [process for process in found if process[:2] not in stopped]
        if not fresh:
            break
        for process in fresh:
            send(process, signal.SIGSTOP)
            stopped.add(process[:2])
    for process in found:
        send(process, signal.SIGKILL)
    return len(found)
