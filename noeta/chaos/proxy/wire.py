"""The harness's end of the wire: starts the proxy, orders cuts, hears what became of them, and ends it.

The harness's own connections go directly to the server; only workers are given an address on the wire.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from noeta.chaos.proxy.cuts import Cut
from noeta.chaos.proxy.process import Arm, DisarmAll, Disarmed, Listens
from noeta.chaos.proxy.record import CutLine
from noeta.chaos.proxy.target import Target
from noeta.chaos.reaper import Reapers, kill_processes
from noeta.testing.postgres.guard import started_at

START_SECONDS_MAX: Final = 30.0
ANSWER_SECONDS_MAX: Final = 20.0
"""For the answer to an order: a cut under way waits for a statement, which the server bounds."""

END_SECONDS_MAX: Final = 5.0
LOG_CHARS: Final = 2_000
_MAIN: Final = "from noeta.chaos.proxy.process import main; main()"


class WireFailed(RuntimeError):
    """The proxy is gone or does not answer: the workers have no store any more, and the run proves nothing."""


_words: Final[msgspec.json.Decoder[Listens | Disarmed]] = msgspec.json.Decoder(Listens | Disarmed)


class Wire:
    """A proxy in front of ``target``. ``record``: where it writes every cut; ``log``: what it says when it fails.

    For one thread at a time.

    Raises:
        WireFailed: it does not start.
    """

    def __init__(self, target: Target, record: Path, log: Path, reapers: Reapers) -> None:
        self._target, self._record, self._log, self._reapers = target, record, log, reapers
        self._heard = bytearray()
        self._read_to = 0
        self._orders = 0
        record.touch()
        self._control, theirs = socket.socketpair()
        with theirs, log.open("ab") as out:
            self._child = subprocess.Popen(
                [
                    *(sys.executable, "-c", _MAIN, str(theirs.fileno())),
                    *(target.address.host, str(target.address.port), str(record.absolute())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is for us: the workers need their store until they are ended
                cwd="/",
                env={**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(path).resolve()) for path in sys.path)},
            )
        self._number: int | None = None
        try:
            self._number = reapers.process(self._child.pid)
            word = self._hear(START_SECONDS_MAX)
            assert isinstance(word, Listens), word
            self.port = word.port
        except BaseException:  # an interrupt, too: nobody has the wire yet who could close it
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Its process."""
        return self._child.pid

    def address_of(self, process: str) -> str:
        """The address of the store for this worker process. It may hold a password."""
        return self._target.dsn_through(self.port, process)

    def arm(self, cut: Cut) -> None:
        """From now on this cut may strike.

        Raises:
            WireFailed.
        """
        self._order(Arm(cut))

    def disarm_all(self) -> None:
        """No cut strikes any more, and the record is complete, once this returns.

        Raises:
            WireFailed.
        """
        self._orders += 1
        self._order(DisarmAll(self._orders))
        while self._hear(ANSWER_SECONDS_MAX) != Disarmed(self._orders):
            pass

    def cuts(self) -> tuple[CutLine, ...]:
        """What was cut since this was asked last.

        Raises:
            WireFailed.
        """
        if self._child.poll() is not None:
            raise self._failed(f"it ended with exit code {self._child.returncode}")
        with self._record.open("rb") as lines:
            lines.seek(self._read_to)
            whole, newline, _ = lines.read().rpartition(b"\n")
        self._read_to += len(whole) + len(newline)
        return tuple(msgspec.json.decode(line, type=CutLine) for line in whole.splitlines())

    def close(self) -> None:
        """End it; every connection through it ends, too. Twice does no harm."""
        self._control.close()
        try:
            self._child.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            kill_processes([(self._child.pid, started_at(self._child.pid))])
            self._child.wait()
        if self._number is not None:
            self._reapers.withdraw(self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _order(self, order: Arm | DisarmAll) -> None:
        try:
            self._control.sendall(msgspec.json.encode(order) + b"\n")
        except OSError as error:
            raise self._failed(f"it takes no orders ({error})") from error

    def _hear(self, seconds: float) -> Listens | Disarmed:
        self._control.settimeout(seconds)
        try:
            while b"\n" not in self._heard:
                data = self._control.recv(4096)
                if not data:
                    raise self._failed("it is gone")
                self._heard += data
        except OSError as error:
            raise self._failed(f"it does not answer ({error})") from error
        line, _, rest = self._heard.partition(b"\n")
        self._heard = bytearray(rest)
        return _words.decode(bytes(line))

    def _failed(self, what: str) -> WireFailed:
        try:
            told = self._log.read_text(errors="replace")[-LOG_CHARS:].strip()
        except OSError:
            told = ""
        return WireFailed(f"the proxy between workers and server: {what}. {told}".strip())
