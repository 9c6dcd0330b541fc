"""A process with a descendant of every kind that is hard to end: the program of the jobs that are measured or tested.

Run alone, with the standard library: ``python -I -S tree_program.py FOLDER``. As long as it lives, each process writes
lines to a file of its own in the folder, named after its kind: the wall clock in microseconds, taken just before the
line is written, so that the clocks of stores on this machine can be compared with it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Final

LINE_SECONDS: Final = 0.01
CHILD: Final = "child"
PLAIN: Final = "plain"
IGNORES: Final = "ignores-sigterm"
SESSION: Final = "own-session"
DAEMON: Final = "daemon"
KINDS: Final = (CHILD, PLAIN, IGNORES, SESSION, DAEMON)
"""The shell's own child, and what descends from that."""


def main(folder: str) -> None:
    """Fork the descendants; be the child."""
    for kind in KINDS[1:]:
        if os.fork() == 0:
            _become(kind)
            _write(folder, kind)
    _write(folder, CHILD)


def _become(kind: str) -> None:
    if kind != PLAIN:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if kind in (SESSION, DAEMON):
        os.setsid()
    if kind == DAEMON:
        if os.fork() != 0:
            os._exit(0)
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)


def _write(folder: str, kind: str) -> None:
    journal = os.open(os.path.join(folder, kind), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    while True:
        os.write(journal, b"%d\n" % (time.time_ns() // 1000))
        time.sleep(LINE_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])
