"""The worker's end of its guard process: starts it, and passes packets without ever blocking.

One activity uses it (`minder.py`). A packet that the socket does not take yet waits here: a guard that is stopped must
not stop the one that renews the leases.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import Any, Final

WITHHELD: Final = frozenset({"NOETA_STORE", "PGPASSWORD"})
"""Variables of the worker that its jobs are not given: where its store is, and what opens it. Guard and supervisors get
along without, and every job can read the environment that its ancestors began with."""

PACKET_BYTES_MAX: Final = 64 * 1024
END_SECONDS_MAX: Final = 5.0
"""How long a guard that was sent SIGKILL may take to be gone."""

_MAIN: Final = (
    "import sys; sys.path.append(sys.argv[1]); from noeta.runtime.jobs.guard import main; "
    "main(int(sys.argv[2]), int(sys.argv[3]))"
)


class GuardLink:
    """One guard process.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self) -> None:
        if not sys.executable:
            raise OSError(0, "this interpreter does not know its own path")
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._unsent: deque[tuple[bytes, Sequence[int]]] = deque()
        self.is_gone = False
        root = Path(__file__).resolve().parents[3]  # what holds the package, wherever it is installed
        try:
            self.process = Popen(
                [sys.executable, "-I", "-S", "-c", _MAIN, str(root), str(os.getpid()), str(theirs.fileno())],
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=DEVNULL,
                close_fds=True,  # above all the database's sockets
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
                env={name: value for name, value in os.environ.items() if name not in WITHHELD},
            )
        except OSError:
            self._socket.close()
            raise
        finally:
            theirs.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether ``flush`` must be called once the socket takes more."""
        return bool(self._unsent)

    def send(self, packet: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Pass a packet, with descriptors that are closed here once it is sent, or never will be."""
        self._unsent.append((json.dumps(packet).encode(), descriptors))
        self.flush()

    def flush(self) -> None:
        """Send what the socket takes now."""
        while self._unsent:
            data, descriptors = self._unsent[0]
            try:
                socket.send_fds(self._socket, [data], descriptors)
            except BlockingIOError:
                return
            except OSError:  # it is gone; its end of file is yet to be read
                self._drop_unsent()
                return
            self._unsent.popleft()
            _close(descriptors)

    def receive(self) -> dict[str, Any] | None:
        """The next packet; None once there will be none.

        Raises:
            BlockingIOError: there is none now.
        """
        try:
            data = self._socket.recv(PACKET_BYTES_MAX)
        except ConnectionError:
            data = b""
        packet: dict[str, Any] | None = json.loads(data) if data else None
        return packet

    def hang_up(self) -> None:
        """Tell the guard that we are done with it: it kills what is left, and ends."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> int | None:
        """Nothing more passes: end what is left of the guard; its exit code, or None if it would not end."""
        self.is_gone = True
        self.process.kill()  # first: one that lives would take the closed socket for a worker that is gone
        self._drop_unsent()
        self._socket.close()
        try:
            return self.process.wait(END_SECONDS_MAX)
        except TimeoutExpired:
            return None

    def _drop_unsent(self) -> None:
        while self._unsent:
            _close(self._unsent.popleft()[1])


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
