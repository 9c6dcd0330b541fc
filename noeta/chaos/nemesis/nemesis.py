"""The nemesis: strikes by the schedule until the quotas are met, then undoes everything.

One thread, one look every few milliseconds, no sleep inside a strike: so a pause waits for its takeover while
kills go on. A strike waits a little for its target to be at work, because an idle kill proves nothing. After
the storm the thread goes on starting workers that their own scripts kill, until ``close``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from noeta.chaos.cluster import Cluster, ClusterClosed, Worker
from noeta.chaos.nemesis.arena import Arena, Strike
from noeta.chaos.nemesis.call_faults import Spoiled
from noeta.chaos.nemesis.claims import Claims
from noeta.chaos.nemesis.database_faults import NOT_OURS, DatabaseServer, ServerDown
from noeta.chaos.nemesis.deaths import Deaths, NemesisFailed
from noeta.chaos.nemesis.process_faults import Down, Paused, Skewed, Told, await_stop, kill, kill_all, pause
from noeta.chaos.nemesis.record import FaultRecord
from noeta.chaos.nemesis.result import KILLS, NemesisResult, count, undecided_or_effective
from noeta.chaos.nemesis.ripeness import is_possible, is_ripe
from noeta.chaos.nemesis.wire_faults import Severed
from noeta.chaos.proxy import Cut, Wire
from noeta.chaos.schedule import CALL_KINDS, DATABASE_KINDS, WIRE_KINDS, After, AtPoint, Fault, Kind, Schedule
from noeta.core.store import Store

NO_WIRE: Final = "the workers' connections go directly to the store"
LOOK_SECONDS: Final = 0.02
RIPE_LEASES: Final = 5.0
"""How long a strike waits for its target to hold a claim."""

SPARE_LEASES: Final = 0.5
"""Between two spare strikes."""

LAG: Final = 1.2
"""Spares come early when the storm is so much behind its quotas."""

SETTLE_LEASES: Final = 6.0
"""After the heal: how long takeovers of the last strikes are awaited."""

HEAL_SECONDS: Final = 45.0
"""How long workers may take to be up and answered, on a machine under load."""


class Nemesis:
    """Strikes ``cluster`` by ``schedule``. ``store`` is this nemesis's own handle; ``server`` None: not to be struck.

    Its faults are then refused by name (``no_server``: why), never replaced; those of the wire likewise.
    ``keeps_out``: see ``Arena``."""

    def __init__(
        self,
        schedule: Schedule,
        cluster: Cluster,
        store: Store,
        server: DatabaseServer | None,
        out_path: Path,
        *,
        no_server: str = NOT_OURS,
        keeps_out: Callable[[int], bool] = lambda pid: False,
        wire: Wire | None = None,
        no_wire: str = NO_WIRE,
    ) -> None:
        self._refused: dict[str, str] = {}
        if server is None or not server.owned:
            schedule = self._without(schedule, DATABASE_KINDS, no_server)
        if wire is None:
            schedule = self._without(schedule, WIRE_KINDS, no_wire)
        self._schedule = schedule
        self._cluster = cluster
        self._server, self._wire = server, wire
        self._arena = Arena(cluster, Claims(store, cluster.config.queue), FaultRecord(out_path), keeps_out=keeps_out)
        self._pending = list(schedule.faults)
        self._spares = list(schedule.spares)
        self._armed: dict[str, Fault] = {}
        self._strikes: list[Strike] = []
        self._unfired: dict[str, str] = {}
        self._deaths = Deaths(self._arena)
        self._not_healed: list[str] = []
        self._spare_at = 0.0
        self._began = 0.0
        self._calm = threading.Event()
        self._healed = threading.Event()
        self._closed = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="nemesis", daemon=True)

    def _without(self, schedule: Schedule, kinds: frozenset[Kind], why: str) -> Schedule:
        self._refused |= {str(kind): why for kind in sorted(schedule.kinds() & kinds)}
        return schedule.without(kinds)

    # -- for the harness -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin the storm."""
        self._began = time.monotonic()
        self._thread.start()

    @property
    def quotas_met(self) -> bool:
        """Whether the storm may end. Kinds that spares cannot help along are not in the quotas."""
        return self.result().quotas_met

    def check(self) -> None:
        """Raise what ended the nemesis early, if anything did.

        Raises:
            NemesisFailed.
        """
        if self._failure is not None:
            raise NemesisFailed(f"{type(self._failure).__name__}: {self._failure}") from self._failure

    def stop_and_heal(self) -> NemesisResult:
        """End the storm and undo everything; afterwards every worker is up and has had an answer of the store, or
        ``not_healed`` says which has not.

        Raises:
            NemesisFailed.
        """
        self._calm.set()
        while not self._healed.wait(0.2):
            if not self._thread.is_alive():
                break
        self.check()
        return self.result()

    def result(self) -> NemesisResult:
        """What was achieved so far."""
        return count(
            self._arena.record.lines,
            self._schedule.quotas,
            unfired=dict(self._unfired),
            refused=self._refused,
            not_healed=list(self._not_healed),
            crashes=list(self._deaths.crashes),
        )

    def close(self) -> None:
        """Stop looking after the workers, and close the record. Nothing is undone here: see ``stop_and_heal``."""
        self._calm.set()
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._arena.record.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._calm.is_set():
                self._blow(time.monotonic())
                self._calm.wait(LOOK_SECONDS)
            self._heal()
            self._healed.set()
            while not self._closed.wait(LOOK_SECONDS):
                self._tend(time.monotonic())
        except ClusterClosed:
            pass  # the run is over, and with it the workers
        except BaseException as error:  # told to whoever asks next: a thread has nobody to raise to
            self._failure = error

    def _blow(self, now: float) -> None:
        """One look: what is due, what has happened, what goes on."""
        self._tend(now)
        at = now - self._began
        due = [fault for fault in self._pending if _instant(fault) <= at]
        for fault in due:
            if self._strike(fault, now, overdue=at - _instant(fault)):
                self._pending.remove(fault)
        if now >= self._spare_at and self._strike_spare(now, at):
            self._spare_at = now + SPARE_LEASES * self._arena.lease_seconds

    def _tend(self, now: float) -> None:
        self._notice_self_strikes()
        self._notice_cuts()
        self._notice_deaths(now)
        self._strikes = [strike for strike in self._strikes if not strike.tick(now)]

    # -- striking ------------------------------------------------------------------------------------------

    def _strike(self, fault: Fault, now: float, *, overdue: float) -> bool:
        """Strike if the target is ripe, or has been waited for long enough; whether the fault is dealt with."""
        if isinstance(fault.anchor, AtPoint):
            if fault.kind is Kind.PAUSE and self._arena.paused:
                return False
            self._armed[fault.id] = fault
            if fault.kind in WIRE_KINDS:
                assert self._wire is not None
                self._wire.arm(Cut.of(fault))
            else:
                self._arena.arm(fault)
            return True
        if is_ripe(self._arena, fault):
            return self._now(fault)
        # Nobody gets work while the store is away: the patience begins anew when it is back.
        if min(overdue, now - self._arena.claims.away_at) < RIPE_LEASES * self._arena.lease_seconds:
            return False
        if is_possible(self._arena, fault):
            return self._now(fault)
        if fault.kind is Kind.TERMINATE:
            return False  # few are planned, and without one the run is unknown: the next moment will do
        self._unfired[fault.id] = f"its target {fault.target} was down or stopped"
        return True

    def _now(self, fault: Fault, *, is_spare: bool = False) -> bool:
        arena = self._arena
        struck: Iterable[Strike | None]
        match fault.kind:
            case Kind.KILL:
                respawn = fault.seconds("respawn_seconds")
                struck = [kill(arena, self._target(fault), fault.kind, fault=fault.id, respawn_seconds=respawn)]
            case Kind.RESTART_SAME_NAME:
                struck = [kill(arena, self._target(fault), fault.kind, fault=fault.id, respawn_seconds=0.0)]
            case Kind.KILL_ALL:
                struck = kill_all(arena, fault=fault.id, respawn_seconds=fault.seconds("respawn_seconds"))
            case Kind.PAUSE:
                struck = [pause(arena, self._target(fault), fault, may_keep_out=not is_spare)]
            case Kind.TERMINATE:
                struck = [Told(arena, self._target(fault), fault=fault.id)]
            case Kind.SKEW:
                struck = [Skewed(arena, fault)]
            case Kind.DB_RESTART | Kind.DB_KILL:
                assert self._server is not None
                struck = [ServerDown(arena, self._server, fault)]
            case _:
                raise AssertionError(f"{fault.id}: a {fault.kind} strikes at a point")
        hits = [strike for strike in struck if strike is not None]
        self._strikes += hits
        return bool(hits)

    def _target(self, fault: Fault) -> Worker:
        return self._cluster.workers[fault.target]

    def _strike_spare(self, now: float, at: float) -> bool:
        """Strike the first spare that is ripe and whose quota is behind: so that it hurts, or at another look."""
        for fault in self._spares:
            if self._is_behind(fault.kind, at) and is_ripe(self._arena, fault) and self._now(fault, is_spare=True):
                self._spares.remove(fault)
                return True
        return False

    def _is_behind(self, kind: Kind, at: float) -> bool:
        quota = self._schedule.quotas.of(kind)
        kinds = KILLS if kind in KILLS else frozenset({kind})
        share = min(1.0, LAG * at / self._cluster.config.seconds)
        planned = any(fault.kind in kinds and isinstance(fault.anchor, After) for fault in self._pending)
        wanted = quota * (share if planned else 1.0)
        if planned and kind is Kind.KILL_ALL:
            return False
        return undecided_or_effective(self._arena.record.lines, kinds) + 1 <= wanted

    # -- noticing ------------------------------------------------------------------------------------------

    def _notice_self_strikes(self) -> None:
        for fault in list(self._armed.values()):
            self._notice_self_strike(fault)

    def _notice_self_strike(self, fault: Fault) -> bool:
        """Whether some process has struck itself for this fault."""
        by_itself = self._cluster.control.struck(fault.id)
        if by_itself is None:
            return False
        worker = next(worker for worker in self._cluster.all if worker.process == by_itself.process)
        del self._armed[fault.id]
        self._arena.disarm(fault.id)
        if fault.kind in CALL_KINDS:
            self._strikes.append(Spoiled(self._arena, worker, by_itself))
        elif worker.process in self._arena.accounted:
            self._unfired[fault.id] = f"{worker.process} was struck down by another fault at the same instant"
        elif fault.kind is Kind.KILL:
            worker.child.wait()
            respawn = fault.seconds("respawn_seconds")
            self._strikes.append(
                Down(self._arena, worker, fault.kind, fault=fault.id, by_itself=by_itself, respawn_seconds=respawn)
            )
        elif await_stop(worker):
            seconds, seconds_max = fault.seconds("seconds"), fault.seconds("seconds_max")
            self._strikes.append(
                Paused(
                    self._arena,
                    worker,
                    seconds=seconds,
                    seconds_max=seconds_max,
                    fault=fault.id,
                    by_itself=by_itself,
                )
            )
        return True

    def _notice_cuts(self) -> None:
        for cut in () if self._wire is None else self._wire.cuts():
            self._armed.pop(cut.fault, None)
            worker = next((worker for worker in self._cluster.all if worker.process == cut.process), None)
            if worker is None:
                self._unfired[cut.fault] = f"it hit {cut.process!r}, which is no worker"
            else:
                self._strikes.append(Severed(self._arena, worker, cut))

    def _notice_deaths(self, now: float) -> None:
        """Workers that ended and that no strike stands for: killed by their script, or crashed."""
        for name, worker in list(self._cluster.workers.items()):
            if worker.is_running:
                self._deaths.alive(worker, now)
                continue
            if worker.process in self._arena.accounted:
                continue
            if any(self._notice_self_strike(fault) for fault in list(self._armed.values())):
                continue  # it may be this one: look again
            self._strikes.append(self._deaths.mourn(name, worker, now))

    # -- healing -------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        arena, cluster = self._arena, self._cluster
        for fault in self._pending:
            self._unfired[fault.id] = "the storm was over before its time came"
        self._pending.clear()
        arena.disarm_all()
        if self._wire is not None:
            self._wire.disarm_all()
        self._notice_self_strikes()
        self._notice_cuts()
        for fault_id, fault in self._armed.items():
            assert isinstance(fault.anchor, AtPoint)
            self._unfired[fault_id] = f"nobody came to {fault.anchor.point} for the {fault.anchor.n}. time"
        self._armed.clear()
        for strike in self._strikes:
            strike.heal(time.monotonic())
        cluster.resume_all()
        before = {worker.process: cluster.answers(worker) for worker in cluster.workers.values()}
        deadline = time.monotonic() + HEAL_SECONDS
        while (left := self._not_yet_well(before)) and time.monotonic() < deadline and not self._closed.is_set():
            self._tend(time.monotonic())
            time.sleep(LOOK_SECONDS)
        self._not_healed = left
        self._await_takeovers()

    def _not_yet_well(self, before: dict[str, int]) -> list[str]:
        """Every worker must run and have had an answer since: so each resumed process has, or is gone."""
        wrong = [] if self._server is None or self._server.is_running() else ["the database server is down"]
        for name, worker in self._cluster.workers.items():
            if not worker.is_running:
                wrong.append(f"{name} is down")
            elif worker.is_stopped:
                wrong.append(f"{worker.process} is stopped")
            elif self._cluster.answers(worker) <= before.get(worker.process, 0):
                wrong.append(f"{worker.process} has had no answer of the store")
        wrong += [
            f"a strike is not over: {type(strike).__name__}" for strike in self._strikes if not isinstance(strike, Down)
        ]
        return wrong

    def _await_takeovers(self) -> None:
        """The claims that the last strikes cut are taken over soon; until then nobody knows whether they hurt."""
        deadline = time.monotonic() + SETTLE_LEASES * self._arena.lease_seconds
        while time.monotonic() < deadline and not self._closed.is_set():
            if all(line.effective is not None for line in self._arena.record.lines):
                return
            self._tend(time.monotonic())
            time.sleep(LOOK_SECONDS)


def _instant(fault: Fault) -> float:
    return fault.anchor.seconds if isinstance(fault.anchor, After) else fault.anchor.since
