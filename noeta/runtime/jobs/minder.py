"""The one activity of a worker that talks to its guard, and hears how its jobs end.

Everything that touches the guard, or a job's descriptors, is done by this activity, in the order in which it was asked
for; whoever asks never waits for a process. A job has ended when its supervisor says so. If the supervisor is gone
without a word, the guard's word counts, which cleans up after it; and if the guard is gone, supervisors are on their
own and still report.
"""

from __future__ import annotations

import json
import logging
import os
import select
import selectors
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from noeta.core.jobs import OUTPUT_BYTES_KEPT, OUTPUT_CHARS_TOLD, How, JobEnd, JobOutput, JobSpec
from noeta.core.world import Event, World
from noeta.runtime.jobs import supervisor
from noeta.runtime.jobs.link import GuardLink
from noeta.runtime.jobs.output import NOTHING, RingReader, make_ring, newest, page

_log = logging.getLogger("noeta.jobs")

WHY: Final[Mapping[str, str]] = {
    "": "",
    supervisor.LEASE_OVER.decode(): "killed because the lease of its claim was about to be over",
    supervisor.CLAIM_LOST.decode(): "killed because its claim was lost",
    supervisor.WORKER_GONE.decode(): "killed because its worker closed",
    supervisor.GUARD_GONE.decode(): "killed because the guard of its worker was gone",
}
SUPERVISOR_GONE: Final = "killed because the process that watched over it was gone"
BOTH_GONE: Final = "the process that watched over it and the guard are gone: something of it may be left"
SIGKILL: Final = 9
LAST_REPORT_SECONDS_MAX: Final = 5.0
"""How long each supervisor is waited for when the activity itself fails."""


class Job:
    """One job as the worker knows it. ``begun``: it runs, or it never will; ``over``: it has ended, and ``end`` says
    how."""

    def __init__(
        self,
        world: World,
        number: int,
        job_id: str,
        claim: int,
        die_at: Callable[[], float],
        told: Callable[[Job], None],
    ) -> None:
        self.number = number
        self.job_id = job_id
        self.claim = claim
        self.die_at = die_at
        """When its tree has to die, by the monotonic clock, as is known now."""
        self.told = told
        """Hears of its end."""
        self.begun: Event = world.event()
        self.over: Event = world.event()
        self.end: JobEnd | None = None
        self.dropped = False
        """Nobody wants to hear of its end."""
        self.ring: RingReader | None = None
        self.read = NOTHING
        self.report: int | None = None
        self.lines = b""
        self.link: GuardLink | None = None
        self.is_orphaned = False

    def output(self, after: int = 0, most: int | None = None) -> JobOutput:
        """What it has written so far, from this byte on, as far as that is kept; of that the oldest ``most`` bytes."""
        ring, is_over = self.ring, self.end is not None
        read = self.read if is_over or ring is None else ring.read(after)
        text, start, end = page(read, after, most, is_over=is_over)
        return JobOutput(text, start, read.total, read.total - end)

    def finish(self, how: How, *, exit_code: int | None = None, signal: int | None = None, detail: str = "") -> None:
        """It has ended so. Whoever waits for ``over`` finds its end told."""
        if self.end is not None:
            return
        if self.ring is not None:
            self.read = self.ring.read()
        text, start = newest(self.read, OUTPUT_CHARS_TOLD)
        self.end = JobEnd(self.job_id, how, exit_code, signal, JobOutput(text, start, self.read.total), detail)
        self.ring = None  # whoever reads it at this moment still holds it
        self.told(self)
        self.over.set()
        self.begun.set()


class Minder:
    """The activity: it begins with the first thing that is asked of it, and ends with ``close``."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._todo: deque[Callable[[], None]] = deque()
        self._unspawned = deque([None])  # whoever takes it spawns the activity: no lock above the store
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._selector: selectors.BaseSelector | None = None
        self._link: GuardLink | None = None
        self._jobs: dict[int, Job] = {}
        self._closing = False
        self.done: Event = world.event()
        """The activity has ended: whatever is asked for now is never done."""

    def __del__(self) -> None:
        # Not in close: somebody may be about to write, and the number may be another file's by then.
        os.close(self._woken)
        os.close(self._wake)

    # -- for everybody -------------------------------------------------------------------------------------

    def start(self, job: Job, spec: JobSpec, directory: str, environment: Mapping[str, str]) -> None:
        """Start this job; ``job.begun`` says when that is decided."""
        self._ask(partial(self._start, job, spec, directory, environment))

    def order(self, job: Job, order: bytes) -> None:
        """Pass an order of ``supervisor.py`` to the job's supervisor."""
        self._ask(partial(self._send, {"do": "order", "job": job.number, "order": order.decode("latin-1")}))

    def kill(self, job: Job) -> None:
        """Kill this job's tree now, because its owner wants it to end."""
        self._ask(partial(self._send, {"do": "kill", "jobs": [job.number], "order": supervisor.STOP.decode()}))

    def kill_claim(self, claim: int) -> None:
        """Kill all trees of a claim now, because it is lost."""
        self._ask(
            partial(self._send, {"do": "kill", "jobs": None, "claim": claim, "order": supervisor.CLAIM_LOST.decode()})
        )

    def extend(self, claim: int, die_at: float) -> None:
        """The trees of this claim may live until then."""
        self._ask(partial(self._send, {"do": "extend", "claim": claim, "at": die_at}))

    def close(self, seconds_max: float) -> None:
        """Kill everything and end the guard; blocks until that is done, or the time is over and the guard is killed."""
        try:
            self._unspawned.pop()
        except IndexError:
            self._ask(self._close)
        else:  # nothing was ever asked for
            self._closing = True
            self.done.set()
        if not self.done.wait(seconds_max) and (link := self._link) is not None:
            link.process.kill()  # it is stopped, perhaps; its supervisors hear of its end
            self.done.wait(seconds_max)

    def _ask(self, do: Callable[[], None]) -> None:
        self._todo.append(do)
        try:
            self._unspawned.pop()
        except IndexError:
            try:
                os.write(self._wake, b"\0")
            except BlockingIOError:
                pass  # it is awake
        else:
            self._world.spawn("jobs", self._run)

    # -- the activity --------------------------------------------------------------------------------------

    def _run(self) -> None:
        selector = self._selector = selectors.DefaultSelector()
        try:
            selector.register(self._woken, selectors.EVENT_READ, lambda events: self._hear())
            self._work()
            while not self._closing or self._link is not None or self._jobs:
                self._turn(selector)
        finally:
            self._abandon()
            selector.close()
            self.done.set()

    def _turn(self, selector: selectors.BaseSelector) -> None:
        for key, events in selector.select():
            if selector.get_map().get(key.fd) is key:  # an earlier one of this round may have closed it
                key.data(events)

    def _abandon(self) -> None:
        """Leave nothing behind, also when it is a bug that ends the activity."""
        self._closing = True
        if self._link is not None:
            self._link.close()  # it dies; the supervisors kill their trees
        for job in list(self._jobs.values()):
            while job.report is not None and select.select([job.report], [], [], LAST_REPORT_SECONDS_MAX)[0]:
                self._hear_job(job)
            self._over(job, "killed", signal=SIGKILL, detail=BOTH_GONE)

    def _hear(self) -> None:
        try:
            while os.read(self._woken, 4096):
                pass
        except BlockingIOError:
            pass
        self._work()

    def _work(self) -> None:
        while self._todo:
            self._todo.popleft()()

    def _send(self, packet: Mapping[str, Any], *descriptors: int) -> None:
        if self._link is not None:
            self._link.send(packet, descriptors)
            self._watch_link()

    def _watch_link(self) -> None:
        assert self._selector is not None
        if self._link is not None:
            unsent = selectors.EVENT_WRITE if self._link.has_unsent else 0
            self._selector.modify(self._link, selectors.EVENT_READ | unsent, self._hear_guard)

    def _close(self) -> None:
        self._closing = True
        if self._link is not None:
            self._link.hang_up()

    # -- jobs ----------------------------------------------------------------------------------------------

    def _start(self, job: Job, spec: JobSpec, directory: str, environment: Mapping[str, str]) -> None:
        """Hand a job to the guard, with three descriptors: what to run, where to report, and the ring."""
        assert self._selector is not None
        if self._closing:
            self._over(job, "not_started", detail="this worker closes")
            return
        opened: list[int] = []
        try:
            if self._link is None:
                self._link = GuardLink()
                self._selector.register(self._link, selectors.EVENT_READ, self._hear_guard)
            opened.append(_spec_file(spec, directory, environment))
            report, theirs = os.pipe()
            job.report = report
            opened.append(theirs)
            opened.append(make_ring(OUTPUT_BYTES_KEPT))
            job.ring = RingReader(opened[-1])
        except Exception as error:  # whatever is wrong with this job, its neighbours go on
            for descriptor in opened:
                os.close(descriptor)
            self._over(job, "not_started", detail=f"{type(error).__name__}: {error}")
            return
        job.link = self._link
        self._jobs[job.number] = job
        self._selector.register(report, selectors.EVENT_READ, lambda events: self._hear_job(job))
        start = {"do": "start", "job": job.number, "claim": job.claim, "at": job.die_at()}
        self._send(start, *opened)

    def _hear_job(self, job: Job) -> None:
        assert job.report is not None
        data = os.read(job.report, 4096)
        *lines, job.lines = (job.lines + data).split(b"\n")
        for line in lines:
            told = json.loads(line)
            if "started" in told:
                job.begun.set()
            else:
                detail = told.get("detail", "") or WHY[told.get("why", "")]
                self._over(job, told["how"], exit_code=told.get("exit_code"), signal=told.get("signal"), detail=detail)
        if not data:
            self._forget_report(job)
            if job.end is None:
                job.is_orphaned = True
                self._judge_orphan(job)

    def _judge_orphan(self, job: Job) -> None:
        """Its supervisor ended without a word: the guard tells when nothing is left, if there still is a guard."""
        if job.is_orphaned and job.end is None and (job.link is None or job.link.is_gone):
            if job.begun.is_set():
                self._over(job, "killed", signal=SIGKILL, detail=BOTH_GONE)
            else:  # it was on its way to a guard that was gone
                self._over(job, "not_started", detail=WHY[supervisor.GUARD_GONE.decode()])

    def _over(
        self, job: Job, how: How, *, exit_code: int | None = None, signal: int | None = None, detail: str = ""
    ) -> None:
        self._jobs.pop(job.number, None)
        self._forget_report(job)
        job.finish(how, exit_code=exit_code, signal=signal, detail=detail)

    def _forget_report(self, job: Job) -> None:
        assert self._selector is not None
        if job.report is not None:
            if job.report in self._selector.get_map():
                self._selector.unregister(job.report)
            os.close(job.report)
            job.report = None

    # -- the guard -----------------------------------------------------------------------------------------

    def _hear_guard(self, events: int) -> None:
        link = self._link
        assert link is not None
        if events & selectors.EVENT_WRITE:
            link.flush()
            self._watch_link()
        if not events & selectors.EVENT_READ:
            return
        packet = link.receive()
        if packet is None:
            self._guard_gone(link)
        elif (job := self._jobs.get(packet.get("gone", 0))) is not None:
            self._over(job, "killed", signal=SIGKILL, detail=SUPERVISOR_GONE)
        elif "failed" in packet:
            _log.error("the guard of this worker's background jobs failed:\n%s", packet["failed"])

    def _guard_gone(self, link: GuardLink) -> None:
        """Supervisors end their trees now, and report; the next job gets a new guard."""
        assert self._selector is not None
        self._selector.unregister(link)
        self._link = None
        code = link.close()
        if not self._closing:
            _log.warning("the guard of this worker's background jobs ended (exit code %s): its jobs are killed", code)
        for job in list(self._jobs.values()):
            self._judge_orphan(job)


def _spec_file(spec: JobSpec, directory: str, environment: Mapping[str, str]) -> int:
    """What to run, in memory and without a name. JSON has no bytes: each of them is one character there."""
    content = {
        "command": _as_characters(spec.command),
        "directory": _as_characters(directory),
        "environment": {_as_characters(name): _as_characters(value) for name, value in environment.items()},
    }
    descriptor = os.memfd_create("noeta-job-spec")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(json.dumps(content).encode())
    return descriptor


def _as_characters(text: str) -> str:
    return os.fsencode(text).decode("latin-1")
