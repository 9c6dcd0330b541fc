"""Watches over one job: starts its shell, reads what it writes, and leaves nothing of it.

A process of its own, forked by the guard, so that a start costs no interpreter. It is a child subreaper: whatever the
shell starts stays below it, and the job has ended when the kernel says that no child is left. It takes orders from the
guard through a pipe, whose end of file means that the guard is gone; it tells the worker two things through another:
that the shell runs, and how it all ended. Standard library only.
"""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Mapping
from typing import Any, Final

from noeta.runtime.jobs import kernel, tree
from noeta.runtime.jobs.output import RingWriter

SHELL: Final = "/bin/sh"

# Orders, one byte each. All but the first two kill the tree at once; they say why.
TERMINATE: Final = b"T"
SIGNAL: Final = b"S"
"""Followed by the signal's number as one byte."""
STOP: Final = b"K"
LEASE_OVER: Final = b"L"
CLAIM_LOST: Final = b"C"
WORKER_GONE: Final = b"W"
GUARD_GONE: Final = b"G"
"""Never sent: it is what the end of file means."""

LOOK_MILLISECONDS: Final = 10
"""Between two looks at what is left, if no child's end is heard of meanwhile; each pause is longer than the one before,
because what did not end on SIGKILL hangs in the kernel, or is another user's."""

LOOK_MILLISECONDS_MAX: Final = 1000

GUARD_KILLS_LOOKS: Final = 3
"""Looks before the supervisor kills what the guard, which gave the order, is killing: one look at all processes for
all jobs of a claim is cheaper than one for each."""

DRAIN_BYTES_MAX: Final = 2 * 1024 * 1024
"""Read after the end, more than a pipe holds: somebody who is not of the tree may have been handed its other end."""


class Supervisor:
    """One job, from its start to its report."""

    def __init__(self, spec: Mapping[str, Any], *, control: int, report: int, ring: int) -> None:
        self._spec = spec
        self._control = control
        self._report = report
        self._ring = RingWriter(ring)
        self._children = kernel.hear_of_children()
        self._output, self._job_end = os.pipe()
        os.set_blocking(self._output, False)
        self._poll = select.poll()
        for descriptor in (self._control, self._children, self._output):
            self._poll.register(descriptor, select.POLLIN)
        self._shell = 0
        self._status: int | None = None
        self._stopping = False
        self._order: bytes | None = None

    def run(self) -> None:
        """Start, watch, clean up, report."""
        try:
            self._shell = self._start()
        except (OSError, ValueError) as error:  # no such directory, too long, a NUL, no process left
            self._tell({"how": "not_started", "detail": _reason(error)})
            return
        self._tell({"started": self._shell})
        while self._status is None and self._order is None:
            self._turn(None)
        self._kill_tree()
        self._drain()
        self._tell(self._end())

    def _start(self) -> int:
        """The shell, in a session of its own, with nothing but its three standard descriptors."""
        environment = self._spec["environment"].items()
        os.chdir(as_bytes(self._spec["directory"]))
        try:
            return os.posix_spawn(
                SHELL,
                [SHELL.encode(), b"-c", as_bytes(self._spec["command"])],
                {as_bytes(name): as_bytes(value) for name, value in environment},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, self._job_end, 1),
                    (os.POSIX_SPAWN_DUP2, self._job_end, 2),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
            )
        finally:
            os.close(self._job_end)
            os.chdir("/")  # the job's directory can be removed while it runs

    def _turn(self, milliseconds: int | None) -> None:
        """Wait for something to happen, and do what it asks for. A shell that has ended by itself ended before any
        order that is read after that."""
        ready = self._poll.poll(milliseconds)
        self._reap()
        for descriptor, _ in ready:
            if descriptor == self._control:
                self._take_orders()
            elif descriptor == self._children:
                kernel.drain(self._children)
            elif not self._take_output():
                self._poll.unregister(self._output)

    def _take_output(self) -> int:
        """How many bytes came; 0 if none will."""
        try:
            return self._ring.take(self._output)
        except BlockingIOError:
            return -1

    def _take_orders(self) -> None:
        orders = os.read(self._control, 4096)
        if not orders:
            self._poll.unregister(self._control)
            self._order = self._order or GUARD_GONE  # the guard gives its reason before it goes on purpose
        while orders:
            order, orders = orders[:1], orders[1:]
            if order == TERMINATE:
                self._stopping = self._stopping or self._status is None
                self._signal(signal.SIGTERM)
                self._signal(signal.SIGCONT)  # one that was stopped shall hear of it, too
            elif order == SIGNAL:
                self._signal(orders[0])
                orders = orders[1:]
            elif self._order is None and self._may_be_why(order):
                self._order = order

    def _may_be_why(self, order: bytes) -> bool:
        """Whether this order came before the end of the shell. The guard kills right after it has said why, so that a
        shell that was killed may be reaped first."""
        return self._status is None or (order != STOP and os.WIFSIGNALED(self._status))

    def _signal(self, number: int) -> None:
        """To the shell's process group. Its id is the shell's: nobody else's as long as the shell is not reaped."""
        if self._status is not None:
            return
        try:
            os.killpg(self._shell, number)
        except OSError:
            pass  # it may not be signalled

    def _reap(self) -> bool:
        """Take in every child that has ended; whether any is left. The orphans of the tree are children, too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._shell:
                self._status = status

    def _kill_tree(self) -> None:
        """Until nothing descends from this process: that no child is left is the kernel's word, not a list's."""
        looks = 0 if self._status is None and self._order != GUARD_GONE else GUARD_KILLS_LOOKS
        while self._reap():
            if looks >= GUARD_KILLS_LOOKS:
                tree.kill_below([os.getpid()])
            looks += 1
            self._turn(min(looks * LOOK_MILLISECONDS, LOOK_MILLISECONDS_MAX))

    def _drain(self) -> None:
        taken = 0
        while (count := self._take_output()) > 0 and taken < DRAIN_BYTES_MAX:
            taken += count

    def _end(self) -> dict[str, Any]:
        assert self._status is not None, "the shell was reaped with the rest"
        code = os.waitstatus_to_exitcode(self._status)
        ended = {"exit_code": code} if code >= 0 else {"signal": -code}
        if self._stopping or self._order == STOP:
            return {"how": "stopped", **ended}
        if code >= 0:
            return {"how": "exited", **ended}
        return {"how": "killed", "why": (self._order or b"").decode(), **ended}

    def _tell(self, what: Mapping[str, Any]) -> None:
        tell(self._report, what)


def tell(report: int, what: Mapping[str, Any]) -> None:
    """One line for the worker."""
    try:
        os.write(report, json.dumps(what).encode() + b"\n")
    except BrokenPipeError:
        pass  # it is gone


def supervise(*, spec: int, control: int, report: int, ring: int) -> None:
    """The life of a supervisor, right after the fork. Does not return."""
    code = 1
    try:
        # The other supervisors' pipes above all: their ends of file must not wait for us.
        kernel.close_all_but({0, 1, 2, spec, control, report, ring})
        kernel.become_subreaper("noeta-job")
        with open(spec, "rb") as file:
            file.seek(0)
            content = json.loads(file.read())
        Supervisor(content, control=control, report=report, ring=ring).run()
        code = 0
    finally:
        os._exit(code)  # whatever it was: never back into the guard


def as_bytes(text: str) -> bytes:
    """What the kernel gets, from JSON, which has no bytes: each of them is one character here."""
    return text.encode("latin-1")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {os.fsdecode(error.filename)}" if error.filename else error.strerror
    return str(error)
