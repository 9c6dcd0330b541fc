"""SIGTERM and SIGINT as a stop request.

The interpreter itself writes the signal's number to a pipe (``signal.set_wakeup_fd``); an activity of its own reads
it and calls ``stop``. A handler in Python would not do: it runs on the main thread once that executes bytecode, and
the kernel may hand the signal to another thread (after SIGSTOP and SIGCONT it mostly does), so that a main thread
that waits without end never hears of it. And one that took a lock could wait for itself.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Protocol

STOP_SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_log = logging.getLogger("noeta.worker")


class Stoppable(Protocol):
    """Anything that can be told to stop."""

    def stop(self) -> None: ...


def install_stop_signals(loop: Stoppable) -> Callable[[], None]:
    """Make SIGTERM and SIGINT call ``loop.stop()``; returns what puts the old handlers back.

    Off the main thread signals cannot be handled: warns, and returns a function that does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        _log.warning("stop signals can only be installed on the main thread; stop() must be called by hand")
        return lambda: None
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def wait_for_signal() -> None:
        while heard := os.read(reader, 64):  # nothing: closed by restore
            if not STOP_SIGNALS.isdisjoint(heard):
                loop.stop()
        os.close(reader)

    def on_signal(number: int, frame: FrameType | None) -> None:
        """Only so that the signal does not end the process."""

    threading.Thread(target=wait_for_signal, name="stop-signals", daemon=True).start()
    wakeup_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)  # full: the first signal was heard
    before: dict[int, Any] = {number: signal.signal(number, on_signal) for number in STOP_SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup_before)
        os.close(writer)

    return restore
