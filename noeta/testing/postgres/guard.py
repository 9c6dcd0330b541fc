"""Ends a server whose owner is gone: its processes, its shared memory, its directory.

Runs as a process of its own, `python -I -S guard.py <owner pid> <base directory>`, so it may import nothing
but the standard library. Its standard input is a pipe that only the owner holds open; end of file means the
owner is gone, however it went. A parent-death signal would not do: it fires when the *thread* that started
the server ends, and is cleared when the server changes its user. The parent's id is watched too, because a
forked child of the owner may hold the pipe's other end.

A server's processes are found by their working directory, which Postgres sets to its data directory before
it does anything else, or by that directory among their arguments; so there is no moment between start and
pid file to miss.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

LOOK_INTERVAL_SECONDS = 0.5
KILL_SECONDS_MAX = 10.0
# A server forked by an owner that died at that moment shows up a little later.
LATE_SECONDS = 0.5

IPC_RMID = 0  # from <sys/ipc.h>: mark the segment for removal


def data_dir(base: Path) -> Path:
    return base / "data"


def started_at(pid: int) -> int | None:
    """Start time in clock ticks since boot, or None when there is no such process (or only its zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    return None if fields[0] in "ZX" else int(fields[19])


def is_alive(pid: int, start: int) -> bool:
    return started_at(pid) == start


def server_processes(data: Path) -> list[int]:
    """Every process of the server that lives in `data`, the postmaster first."""
    found = []
    wanted = os.fsencode(data)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            at = str((entry / "cwd").readlink())
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # gone meanwhile, a zombie, or somebody else's
        if at.removesuffix(" (deleted)") == str(data) or wanted in arguments:
            found.append(int(entry.name))
    postmaster = postmaster_pid(data)
    return sorted(found, key=lambda pid: (pid != postmaster, pid))


def postmaster_pid(data: Path) -> int | None:
    lines = pid_file_lines(data)
    return int(lines[0]) if lines and lines[0].strip().isdigit() else None


def pid_file_lines(data: Path) -> list[str]:
    """Lines of postmaster.pid: 0 pid, 3 port, 6 shared memory key and id, 7 status; empty without one."""
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return []


def kill_server(data: Path) -> None:
    """SIGKILL the whole server, postmaster first so that it starts nobody anew, and free its shared memory.

    Raises:
        TimeoutError: processes are left after ten seconds of trying.
    """
    deadline = time.monotonic() + KILL_SECONDS_MAX
    while pids := server_processes(data):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"Postgres processes {pids} of {data} do not end on SIGKILL")
        time.sleep(0.005)
    free_shared_memory(data)


def free_shared_memory(data: Path) -> None:
    """Remove the System V segment a killed postmaster leaves.

    Only if the kernel's list says that this postmaster made it and nobody uses it: after a reboot the same
    id may be a stranger's.
    """
    lines = pid_file_lines(data)
    if len(lines) < 7 or len(lines[6].split()) != 2:
        return
    key, segment = lines[6].split()
    try:
        listed = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return
    for line in listed:
        # key shmid perms size cpid lpid nattch ...
        fields = line.split()
        is_ours = fields[1] == segment and fields[4] == lines[0].strip()
        if is_ours and int(fields[0]) & 0xFFFFFFFF == int(key) & 0xFFFFFFFF and fields[6] == "0":
            ctypes.CDLL(None).shmctl(int(segment), IPC_RMID, None)


def remove_server(base: Path) -> None:
    """Kill the server in `base` and remove the directory, so that neither is there afterwards."""
    kill_server(data_dir(base))
    # A process that was just killed may have had a file open for creation.
    for _ in range(3):
        shutil.rmtree(base, ignore_errors=True)
        if not base.exists():
            return
        time.sleep(0.05)
    shutil.rmtree(base)  # now with the error


def wait_until_gone(owner: int) -> None:
    """Block until our standard input ends or our parent is another: the owner has closed us, or is dead."""
    while os.getppid() == owner:
        readable, _, _ = select.select([0], [], [], LOOK_INTERVAL_SECONDS)
        if readable and os.read(0, 64) == b"":
            break


def watch(owner: int, base: Path) -> None:
    """Wait until the owner is gone, then clean up after it."""
    wait_until_gone(owner)
    deadline = time.monotonic() + LATE_SECONDS
    while True:
        was_there = base.exists() or bool(server_processes(data_dir(base)))
        if was_there:
            remove_server(base)
        elif time.monotonic() > deadline or os.getppid() == owner:
            return  # an owner that is still alive closed its server itself: nothing can be late
        time.sleep(0.05)


if __name__ == "__main__":
    # Whoever ends the owner's group should not take along the one that tidies up.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    os.chdir("/")
    watch(owner=int(sys.argv[1]), base=Path(sys.argv[2]))
