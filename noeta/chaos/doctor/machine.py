"""What the machine has: cores, memory, disk, clocks, file descriptors, ports, and a disk that really writes."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from noeta.chaos.doctor.finding import CHECK, CLUSTER, JOBS, Finding, State

CORES_WANTED: Final = 2
MEMORY_BYTES_WANTED: Final = 1 << 30  # four workers, a server of 200 connections, a harness
DISK_BYTES_WANTED: Final = 1 << 30  # a storm leaves some ten megabytes, a server of our own a hundred
DISK_BYTES_NEEDED: Final = 200 << 20
FILES_WANTED: Final = 1024
CLOCK_SECONDS_MAX: Final = 1.0
LOOPBACK: Final = "127.0.0.1"
LOOPBACK_SECONDS_MAX: Final = 5.0


def machine(runs_dir: Path) -> Iterator[Finding]:
    yield _cores()
    yield _memory()
    yield _disk("temporary files", Path(tempfile.gettempdir()))
    yield _disk("runs directory", runs_dir)
    yield _sync(runs_dir)
    yield _clocks()
    yield _files()
    yield _ports()


def _cores() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if usable < CORES_WANTED:
        return Finding("cores", State.LIMITED, f"{usable}", "expect unknown verdicts of starved storms: more cores")
    return Finding("cores", State.OK, f"{usable}")


def _memory() -> Finding:
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) << 10  # what can be had, not only what lies idle
    if available < MEMORY_BYTES_WANTED:
        return Finding("memory", State.LIMITED, f"{_size(available)} available", "1 GiB for a storm")
    return Finding("memory", State.OK, f"{_size(available)} available")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _disk(name: str, folder: Path) -> Finding:
    at = _existing(folder)
    free = shutil.disk_usage(at).free
    found = f"{_size(free)} free at {folder}"
    if free < DISK_BYTES_NEEDED:
        return Finding(name, State.MISSING, found, "free 200 MiB, or choose another place", (CHECK, CLUSTER))
    if free < DISK_BYTES_WANTED:
        return Finding(name, State.LIMITED, found, "free 1 GiB")
    return Finding(name, State.OK, found)


def _sync(runs_dir: Path) -> Finding:
    """Evidence is written here while workers die, so it must be possible to write, and to sync, and to remove."""
    at = _existing(runs_dir)
    try:
        with tempfile.TemporaryFile(dir=at) as file:
            file.write(b"noeta doctor")
            file.flush()
            began = time.monotonic()
            os.fsync(file.fileno())
            took = time.monotonic() - began
    except OSError as error:
        help_text = "a folder we may write to: noeta cluster --runs-dir"
        return Finding("fsync", State.MISSING, f"not at {at}: {error.strerror}", help_text, (CLUSTER,))
    return Finding("fsync", State.OK, f"{took * 1000:.1f} ms at {at}")


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    folder = folder.absolute()
    return next(one for one in (folder, *folder.parents) if one.is_dir())


def _clocks() -> Finding:
    """Both must move. Skew between hosts is made by the harness inside its own workers, so none is needed here."""
    name, standing = "clocks", []
    for clock in ("time", "monotonic"):
        read = time.time if clock == "time" else time.monotonic
        first, deadline = read(), time.perf_counter() + CLOCK_SECONDS_MAX
        while read() == first and time.perf_counter() < deadline:
            pass
        if read() <= first:
            standing.append("wall" if clock == "time" else clock)
    resolution = ", ".join(f"{clock} {time.get_clock_info(clock).resolution:.0e} s" for clock in ("time", "monotonic"))
    if standing:
        help_text = "run without a library that fakes time"
        return Finding(name, State.MISSING, f"the {' and '.join(standing)} clock stands still", help_text, JOBS)
    return Finding(name, State.OK, f"wall and monotonic run; resolution: {resolution}")


def _files() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"at most {'any number' if soft == resource.RLIM_INFINITY else soft} open"
    if soft != resource.RLIM_INFINITY and soft < FILES_WANTED:
        return Finding("files", State.LIMITED, found, f"ulimit -n {FILES_WANTED}")
    return Finding("files", State.OK, found)


def _ports() -> Finding:
    """A port is bound, connected to, and given back."""
    try:
        with socket.create_server((LOOPBACK, 0)) as server:
            server.settimeout(LOOPBACK_SECONDS_MAX)
            port = server.getsockname()[1]
            with socket.create_connection((LOOPBACK, port), LOOPBACK_SECONDS_MAX), server.accept()[0]:
                pass
    except OSError as error:
        help_text = "bring the loopback interface up: ip link set lo up"
        return Finding("ports", State.MISSING, f"not on {LOOPBACK}: {error}", help_text, (CHECK, CLUSTER))
    return Finding("ports", State.OK, f"can be bound on {LOOPBACK}")


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"
