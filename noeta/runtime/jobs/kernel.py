"""What the guard and its supervisors ask of Linux that Python 3.11 has no name for. The standard library only."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Collection
from typing import Final

# From <sys/prctl.h>, <time.h> and <sys/timerfd.h>.
PR_SET_NAME: Final = 15
PR_SET_CHILD_SUBREAPER: Final = 36
CLOCK_MONOTONIC: Final = 1
TFD_NONBLOCK: Final = os.O_NONBLOCK
TFD_CLOEXEC: Final = os.O_CLOEXEC
TFD_TIMER_ABSTIME: Final = 1

NANOS: Final = 1_000_000_000


def become_subreaper(name: str) -> None:
    """Make every orphan below this process its child, and give the process a name for whoever looks at a list of them.

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise _error("prctl")
    libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def hear_of_children() -> int:
    """A descriptor that becomes readable when a child has ended: drain it with ``drain``, then reap."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # without a handler the signal is never told
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)  # full: it is readable all the same
    return reader


def drain(descriptor: int) -> None:
    """Read away all that is there."""
    try:
        while os.read(descriptor, 4096):
            pass
    except BlockingIOError:
        pass


def close_all_but(kept: Collection[int]) -> None:
    """Close every descriptor of this process besides these: those that the kernel lists. To count up to the limit may
    take minutes, as containers have limits of a thousand million, and misses what was opened above a lower one.

    Raises:
        OSError: there is no room for the one descriptor that lists the others.
    """
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - not a path among files
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                pass  # it listed the others


class AbsoluteTimer:
    """Becomes readable at an instant of the monotonic clock, which is the same in every process of the machine."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self._descriptor < 0:
            raise _error("timerfd_create")

    def fileno(self) -> int:
        return int(self._descriptor)

    def set(self, at: float) -> None:
        """Fire at this instant, in seconds, and at no other; one that has passed fires at once."""
        nanos = max(1, int(at * NANOS))  # zero would disarm it
        spec = (ctypes.c_long * 4)(0, 0, nanos // NANOS, nanos % NANOS)
        if self._libc.timerfd_settime(self._descriptor, TFD_TIMER_ABSTIME, ctypes.byref(spec), None) != 0:
            raise _error("timerfd_settime")

    @property
    def is_over(self) -> bool:
        """Whether the instant has come: also in the moment in which the descriptor is not readable yet."""
        spec = (ctypes.c_long * 4)()
        if self._libc.timerfd_gettime(self._descriptor, ctypes.byref(spec)) != 0:
            raise _error("timerfd_gettime")
        return spec[2] == 0 and spec[3] == 0

    def close(self) -> None:
        os.close(self._descriptor)


def _error(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")
