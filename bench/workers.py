"""Worker processes as users start them: `noeta worker` over a place, and what the kernel says of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from bench.agents import APP

ROOT: Final = Path(__file__).parents[1]
LOOK_SECONDS: Final = 0.05
END_SECONDS_MAX: Final = 30.0
"""A worker that was told to stop gives its tasks back well within its grace."""


class WorkerFailed(RuntimeError):
    """A worker ended by itself, or did not do in time what it was waited for; the message ends with its log."""


class WorkerProcess:
    """One running `noeta worker`."""

    def __init__(self, popen: subprocess.Popen[bytes], log: IO[bytes]) -> None:
        self._popen = popen
        self._log = log

    @property
    def pid(self) -> int:
        """Its process id; nobody else's until this process is waited for."""
        return self._popen.pid

    @property
    def threads(self) -> int:
        """As the kernel counts them."""
        return _number(self._proc("status"), "Threads")

    @property
    def private_kb(self) -> int:
        """Memory that is this process's own, in kB."""
        rollup = self._proc("smaps_rollup")
        return _number(rollup, "Private_Clean") + _number(rollup, "Private_Dirty")

    def wait_until(self, is_done: Callable[[], bool], what: str, seconds_max: float) -> None:
        """Look until it is done.

        Raises:
            WorkerFailed: the worker ended, or the time is over.
        """
        deadline = time.monotonic() + seconds_max
        while not is_done():
            if self._popen.poll() is not None:
                raise WorkerFailed(f"the worker ended with {self._popen.returncode}: {self._log_tail()}")
            if time.monotonic() > deadline:
                raise WorkerFailed(f"{what}: not within {seconds_max:g} s: {self._log_tail()}")
            time.sleep(LOOK_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        self._popen.send_signal(number)

    def wait_ended(self, seconds_max: float) -> int:
        """Its exit code, once it has ended.

        Raises:
            WorkerFailed: the time is over.
        """
        try:
            return self._popen.wait(seconds_max)
        except subprocess.TimeoutExpired:
            raise WorkerFailed(f"the worker does not end within {seconds_max:g} s: {self._log_tail()}") from None

    def _proc(self, name: str) -> str:
        return Path(f"/proc/{self._popen.pid}/{name}").read_text()

    def _log_tail(self) -> str:
        self._log.seek(0)
        return self._log.read()[-2000:].decode(errors="replace").strip()


@contextmanager
def worker_process(dsn: str, schema: str, *options: str) -> Iterator[WorkerProcess]:
    """A worker with the default settings but for these options; it is told to stop afterwards."""
    with tempfile.TemporaryFile() as log:
        popen = subprocess.Popen(
            [sys.executable, "-m", "noeta", "worker", "--app", APP, "--schema", schema, *options],
            cwd=ROOT,
            env={**os.environ, "NOETA_STORE": dsn},  # not an argument: it holds a password
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield WorkerProcess(popen, log)
        finally:
            popen.terminate()
            popen.send_signal(signal.SIGCONT)  # it may have been stopped
            try:
                popen.wait(END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                popen.kill()
                popen.wait()


def _number(text: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)
    assert found is not None, f"the kernel does not say {name}"
    return int(found.group(1))
