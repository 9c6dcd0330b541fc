"""SIGTERM and SIGINT as a stop request.

The handler only writes a byte to a pipe; an activity of its own reads it and calls ``stop``. A handler that
took a lock could wait for itself: it runs in the middle of whatever the main thread was doing.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

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
        if os.read(reader, 1) == b"s":
            loop.stop()
        os.close(reader)

    def on_signal(number: int, frame: FrameType | None) -> None:
        try:
            os.write(writer, b"s")
        except OSError:
            pass  # full, or closed by restore: the first signal was heard

    threading.Thread(target=wait_for_signal, name="stop-signals", daemon=True).start()
    before: dict[int, Any] = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writer)

    return restore
