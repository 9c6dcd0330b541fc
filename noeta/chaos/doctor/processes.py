"""What can be done to processes: stop and continue them, let them die with their parent, look at them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from noeta.chaos.doctor.finding import CHECK, CLUSTER, Finding, State

ANSWER_SECONDS_MAX: Final = 10.0
SILENT_SECONDS: Final = 0.2
"""How long a stopped child must say nothing."""
ORPHAN_SECONDS_MAX: Final = 5

ECHO: Final = "import os\nwhile one := os.read(0, 1): os.write(1, one)"

# The middle process ends once its child has asked to die with it; the child would end by itself much later.
ORPHAN: Final = f"""
import ctypes, os, signal
ready, tell = os.pipe()
if os.fork() == 0:
    signal.alarm({ORPHAN_SECONDS_MAX})
    if ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0) == 0:
        os.write(1, b"armed")
    os.write(tell, b"!")
    signal.pause()
os.read(ready, 1)
"""


def processes() -> Iterator[Finding]:
    yield _stop_and_continue()
    yield _dies_with_parent()
    yield _proc()


def _stop_and_continue() -> Finding:
    """A child that answers every byte must not answer while it is stopped, and must once it goes on."""
    name, help_text = "SIGSTOP and SIGCONT", "allow signals between processes of one user"
    with _child(ECHO) as child:
        if not _answers(child, ANSWER_SECONDS_MAX):
            return Finding(name, State.MISSING, "a child did not start", help_text, (CLUSTER,))
        child.send_signal(signal.SIGSTOP)
        if not _is_stopped(child.pid):
            return Finding(name, State.MISSING, "a child goes on after SIGSTOP", help_text, (CLUSTER,))
        if _answers(child, SILENT_SECONDS):
            return Finding(name, State.MISSING, "a stopped child answers", help_text, (CLUSTER,))
        child.send_signal(signal.SIGCONT)
        if not _hears(child, ANSWER_SECONDS_MAX):
            return Finding(name, State.MISSING, "a child does not go on after SIGCONT", help_text, (CLUSTER,))
    return Finding(name, State.OK, "a child was stopped and went on")


def _dies_with_parent() -> Finding:
    name = "parent-death signal"
    with _child(ORPHAN) as child:
        began = time.monotonic()
        assert child.stdout is not None
        said = b""
        while select.select([child.stdout], [], [], ORPHAN_SECONDS_MAX * 2)[0]:
            more = os.read(child.stdout.fileno(), 64)
            if not more:
                break
            said += more
        took = time.monotonic() - began
    if said != b"armed" or took >= ORPHAN_SECONDS_MAX:
        found = "prctl is not there" if not said else "an orphan lives on"
        return Finding(name, State.LIMITED, found, "Linux; elsewhere a killed harness may leave workers behind")
    return Finding(name, State.OK, "an orphan was killed with its parent")


def _proc() -> Finding:
    try:
        Path("/proc/self/stat").read_text()
        others = sum(1 for entry in Path("/proc").iterdir() if entry.name.isdigit() and (entry / "stat").exists())
    except OSError as error:
        help_text = "Linux with /proc mounted"
        return Finding("/proc", State.MISSING, f"not readable: {error.strerror}", help_text, (CHECK, CLUSTER))
    return Finding("/proc", State.OK, f"readable, {others} processes seen")


def _child(code: str) -> subprocess.Popen[bytes]:
    return _Ended([sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)


class _Ended(subprocess.Popen[bytes]):
    """Killed and waited for when its block ends, however that goes."""

    def __exit__(self, *error: object) -> None:
        self.kill()
        super().__exit__(None, None, None)


def _answers(child: subprocess.Popen[bytes], seconds: float) -> bool:
    assert child.stdin is not None
    os.write(child.stdin.fileno(), b"?")
    return _hears(child, seconds)


def _hears(child: subprocess.Popen[bytes], seconds: float) -> bool:
    assert child.stdout is not None
    readable, _, _ = select.select([child.stdout], [], [], seconds)
    return bool(readable) and bool(os.read(child.stdout.fileno(), 1))


def _is_stopped(pid: int) -> bool:
    """Whether the kernel reports the child as stopped, before the deadline."""
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is not None:
            return True
        time.sleep(0.005)
    return False
