"""The guard process of a worker: starts its jobs, and ends them in time when the worker cannot.

It holds no lease and asks no clock: the worker tells it for each claim the instant at which the claim's trees have to
die, and a kernel timer fires then, whatever the worker does. The end of its socket, or of the worker's process, means
that the worker is gone: then everything dies at once. It also takes over what a killed supervisor leaves behind.

Run as ``python -I -S -c <main> <root of the import> <worker's pid> <socket>``, so that it starts in a few milliseconds
and holds none of the worker's descriptors; the standard library only. One thread: it forks.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import traceback
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from noeta.runtime.jobs import kernel, supervisor, tree

PACKET_BYTES_MAX: Final = 64 * 1024
"""Packets are small: what a job runs comes as a descriptor."""

DESCRIPTORS: Final = 3
"""With a start: what to run, where to report, the ring for the output."""

LOOK_SECONDS: Final = 0.01
"""Between two looks at what a killed supervisor left behind, as long as something is left."""


@dataclass(slots=True)
class Claim:
    """The jobs that die at one instant."""

    timer: kernel.AbsoluteTimer
    jobs: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Job:
    """One job's supervisor: our child, so that its pid is its own until we have reaped it."""

    claim: int
    pid: int
    control: int | None


class Guard:
    """The loop, and what it knows."""

    def __init__(self, worker: int, channel: socket.socket) -> None:
        self._channel = channel
        self._children = kernel.hear_of_children()
        self._worker = os.pidfd_open(worker)
        self._claims: dict[int, Claim] = {}
        self._jobs: dict[int, Job] = {}
        self._orphaned: list[int] = []
        self._empty_looks = 0
        self._ending = os.getppid() != worker  # it may have ended before we looked at it
        self._selector = selectors.DefaultSelector()
        self._watch(channel, self._receive)
        self._watch(self._children, lambda: kernel.drain(self._children))
        self._watch(self._worker, self._end)

    def run(self) -> None:
        """Serve until the worker is gone and nothing is left of its jobs."""
        while not self._ending or self._jobs or self._orphaned:
            for key, _ in self._selector.select(LOOK_SECONDS if self._orphaned else None):
                if self._selector.get_map().get(key.fd) is key:  # an earlier one of this round may have closed it
                    key.data()
            self._reap()
            if self._orphaned:
                self._clean_up()

    def _watch(self, source: Any, do: Callable[[], None]) -> None:
        self._selector.register(source, selectors.EVENT_READ, do)

    # -- what the worker says ------------------------------------------------------------------------------

    def _receive(self) -> None:
        data, descriptors = self._packet()
        if not data:
            self._end()
            return
        packet = json.loads(data)
        match packet["do"]:
            case "start":
                if len(descriptors) == DESCRIPTORS:
                    self._start(packet["job"], packet["claim"], packet["at"], *descriptors)
                else:  # this process may hold no more of them
                    self._say({"gone": packet["job"]})
                for descriptor in descriptors:
                    os.close(descriptor)
            case "extend":
                if (claim := self._claims.get(packet["claim"])) is not None:
                    claim.timer.set(packet["at"])
            case "order":
                if (job := self._jobs.get(packet["job"])) is not None:
                    self._tell(job, packet["order"].encode("latin-1"))
            case "kill":
                numbers = packet["jobs"]
                if numbers is None:
                    claim = self._claims.get(packet["claim"])
                    numbers = () if claim is None else claim.jobs
                self._kill(numbers, packet["order"].encode())
            case unknown:
                raise AssertionError(unknown)

    def _packet(self) -> tuple[bytes, list[int]]:
        """The next one, and the descriptors that came with it. Not ``socket.recv_fds``: that drops its flags, and the
        descriptors would go on to the job."""
        found = array("i")
        space = socket.CMSG_LEN(DESCRIPTORS * found.itemsize)
        try:
            data, more, _, _ = self._channel.recvmsg(PACKET_BYTES_MAX, space, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            return b"", []
        for level, kind, content in more:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found.frombytes(content[: len(content) // found.itemsize * found.itemsize])
        return data, list(found)

    def _start(self, number: int, claim_number: int, at: float, spec: int, report: int, ring: int) -> None:
        claim = self._claims.get(claim_number)
        if claim is None:
            claim = self._claims[claim_number] = Claim(kernel.AbsoluteTimer())
            self._watch(claim.timer, lambda: self._lease_over(claim_number))
        claim.timer.set(at)
        if claim.timer.is_over:  # it came late: such a job must not even begin
            self._refuse(report, claim_number, "the lease of its claim is about to be over")
            return
        pipe: tuple[int, ...] = ()
        try:
            pipe = control, ours = os.pipe()
            pid = os.fork()
        except OSError as error:
            for descriptor in pipe:
                os.close(descriptor)
            self._refuse(report, claim_number, f"no process to watch over it: {error.strerror}")
            return
        if pid == 0:
            os.close(ours)  # first: whoever lists descriptors, to close them, needs room for one
            supervisor.supervise(spec=spec, control=control, report=report, ring=ring)
        os.close(control)
        os.set_blocking(ours, False)
        claim.jobs.add(number)
        self._jobs[number] = Job(claim_number, pid, ours)

    def _refuse(self, report: int, claim_number: int, reason: str) -> None:
        supervisor.tell(report, {"how": "not_started", "detail": reason})
        self._forget_claim(claim_number)

    # -- killing -------------------------------------------------------------------------------------------

    def _lease_over(self, claim_number: int) -> None:
        claim = self._claims[claim_number]
        kernel.drain(claim.timer.fileno())
        if claim.timer.is_over:  # and was not extended in this round
            self._kill(claim.jobs, supervisor.LEASE_OVER)

    def _end(self) -> None:
        """The worker is gone, or done with us."""
        for source in (self._channel, self._worker):
            if source in self._selector.get_map():
                self._selector.unregister(source)
        self._ending = True
        self._kill(self._jobs, supervisor.WORKER_GONE)

    def _kill(self, numbers: Iterable[int], order: bytes) -> None:
        """Kill these trees now. The supervisors are told the reason first, and then see to it that nothing is left."""
        jobs = [job for number in numbers if (job := self._jobs.get(number)) is not None and job.control is not None]
        for job in jobs:
            self._tell(job, order)
            os.kill(job.pid, signal.SIGCONT)  # it may have been stopped
        tree.kill_below([job.pid for job in jobs])
        for job in jobs:
            assert job.control is not None
            os.close(job.control)
            job.control = None

    def _tell(self, job: Job, order: bytes) -> None:
        if job.control is None:
            return
        try:
            os.write(job.control, order)
        except (BlockingIOError, BrokenPipeError):
            pass  # stopped by somebody, or dead: the end of file, or its end, does the rest

    # -- ends ----------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        """Take in children that have ended: supervisors, and orphans that one of them left us."""
        by_pid = {job.pid: number for number, job in self._jobs.items()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._empty_looks = 0
            if pid in by_pid:
                self._forget(by_pid[pid], well=status == 0)

    def _forget(self, number: int, *, well: bool) -> None:
        job = self._jobs.pop(number)
        if job.control is not None:
            os.close(job.control)
        self._claims[job.claim].jobs.discard(number)
        self._forget_claim(job.claim)
        if not well:
            self._orphaned.append(number)

    def _forget_claim(self, number: int) -> None:
        claim = self._claims[number]
        if not claim.jobs:
            del self._claims[number]
            self._selector.unregister(claim.timer)
            claim.timer.close()

    def _clean_up(self) -> None:
        """Kill what supervisors that were killed left behind: all that descends from us, and from no living one.

        One empty look does not say that nothing is left, because a process may fork and end while we look; but then
        its end is reaped before the next one.
        """
        living = {job.pid for job in self._jobs.values()}
        if tree.kill_below([os.getpid()], spare=living):
            self._empty_looks = 0
            return
        self._empty_looks += 1
        if self._empty_looks < 2:
            return
        for number in self._orphaned:
            self._say({"gone": number})
        self._orphaned.clear()

    def _say(self, packet: dict[str, Any]) -> None:
        try:
            self._channel.send(json.dumps(packet).encode(), socket.MSG_DONTWAIT)
        except OSError:
            pass  # the worker is gone, or has not read for very long


def main(worker: int, descriptor: int) -> None:
    """The life of the guard."""
    # Whoever ends the worker's group must not take along the one that ends its jobs.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    channel = socket.socket(fileno=descriptor)
    try:
        kernel.become_subreaper("noeta-guard")
        Guard(worker, channel).run()
    except Exception:  # the process ends with it: its supervisors then kill their trees, and the worker is told why
        channel.send(json.dumps({"failed": traceback.format_exc()[-PACKET_BYTES_MAX // 4 :]}).encode())
        raise
