"""How a worker process ends: what the first signal does, and what the next one, from start-up to the very end.

Told once, it stops in order: steps are cancelled, tasks given back. Told again, it is gone at once. A step's thread
cannot be ended, so a process that leaves one behind does not wait for the interpreter's own end, which might.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from noeta.commands.log_lines import ONCE
from noeta.runtime.signals import SignalPipe, Stoppable

TOGETHER_SECONDS: Final = 0.5
"""Signals this close to the first are the same wish: a supervisor sends two at once, a wrapper hands Ctrl-C on that the
terminal has already sent."""

SAYING_SECONDS: Final = 1.0
"""How long the last line may take: whoever should read it may have gone."""

THREADS_SECONDS: Final = 5.0
"""How long threads of the app's own may keep a worker that is done."""

LEFT_TO_LEASES: Final = 1
"""Exit code: some task was not given back. It comes free when its lease is over."""

_log = logging.getLogger("noeta.worker")


class Shutdown:
    """SIGTERM, SIGINT and SIGHUP of this process; usable with ``with``, in the main thread.

    ``leave`` ends the process with an exit code, without tidying up.
    """

    def __init__(self, *, leave: Callable[[int], object] = os._exit, now: Callable[[], float] = time.monotonic) -> None:
        self._leave = leave
        self._now = now
        self._lock = threading.Lock()
        self._service: Stoppable | None = None
        self._told_at: float | None = None
        self._exit_code: int | None = None
        self._pipe = SignalPipe(_signals(), self.told)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._pipe.take()
            atexit.register(self._last)  # the first to be registered is called last
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A process that is about to end keeps its handlers: a late Ctrl-C must neither kill it nor print a traceback.
        if self._exit_code is None:
            atexit.unregister(self._last)
            self._pipe.restore()

    def runs(self, service: Stoppable) -> None:
        """From now on there is something to stop. Takes the signals again: the app may have taken them for itself."""
        with self._lock:
            self._service = service
        if threading.current_thread() is threading.main_thread():
            self._pipe.take()

    def ends(self, exit_code: int) -> None:
        """Everything is said and done: the process ends with this code, whatever threads it still has."""
        with self._lock:
            self._exit_code = exit_code
        if exit_code == LEFT_TO_LEASES:
            self._go(exit_code)  # a step's thread still runs, and nobody renews its lease
        else:
            threading.Thread(target=self._go_after_threads, args=(exit_code,), name="leave", daemon=True).start()

    def told(self, number: int) -> None:
        """Heard one of the signals. Called on the thread that reads them."""
        with self._lock:  # a service that is about to run waits here for our decision
            name = signal.Signals(number).name
            if self._exit_code is not None:
                self._go(self._exit_code)
            elif self._service is None:
                self._say(f"{name} during start-up: nothing was claimed", wait=True)
                self._go(0)
            elif self._told_at is None:
                self._told_at = self._now()
                # Said before anything stops: the log then has it before what it leads to, and it is not lost.
                self._say(f"{name}: stopping, and giving every task back; once more to exit at once", wait=True)
                self._service.stop()
            elif self._now() - self._told_at >= TOGETHER_SECONDS:
                self._say(f"{name} again: exiting at once; tasks are left to their leases", wait=True)
                self._go(LEFT_TO_LEASES)

    def _last(self) -> None:
        """The interpreter takes its handlers down next: a signal that comes then would kill a process that has done
        everything it was asked."""
        for number in self._pipe.numbers:
            signal.signal(number, signal.SIG_IGN)

    def _say(self, words: str, *, wait: bool = False) -> None:
        """On another thread: the log may be blocked, and the next signal must be heard; ``wait`` is bounded."""
        saying = threading.Thread(target=_log.warning, args=(words,), kwargs={"extra": ONCE}, daemon=True)
        saying.start()
        if wait:
            saying.join(SAYING_SECONDS)

    def _go_after_threads(self, exit_code: int) -> None:
        time.sleep(THREADS_SECONDS)
        self._say("exiting although threads of the app still run", wait=True)
        self._go(exit_code)

    def _go(self, exit_code: int) -> None:
        flushing = threading.Thread(target=_flush, daemon=True)
        flushing.start()
        flushing.join(SAYING_SECONDS)
        self._leave(exit_code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone
            if stream is not None:
                stream.flush()


def _signals() -> frozenset[int]:
    """SIGHUP comes when the terminal closes; under `nohup` it is ignored, and stays so."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return frozenset({signal.SIGTERM, signal.SIGINT})
    return frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
