"""A storm, phase by phase: prepare, load, storm, heal, drain, collect, clean up.

The final heal is mandatory. Whatever ends the storm, what it started ends with it, and the evidence until then is on
disk.

With real processes a seed repeats the plan, not the timing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from noeta.backends.open import DEFAULT_STATEMENT_TIMEOUT
from noeta.chaos.asked import Asked
from noeta.chaos.board import Board
from noeta.chaos.clients import Clients
from noeta.chaos.cluster import Cluster
from noeta.chaos.collect import collect
from noeta.chaos.config import Config
from noeta.chaos.drain import Drain, Drained, DrainLimits
from noeta.chaos.evidence_dir import CUTS, FAULTS, FINALS, HISTORY, LOCKS, LOG, ROWS, RUN, RunDir
from noeta.chaos.history import History
from noeta.chaos.interrupt import Interrupts
from noeta.chaos.load import Loader, LoadPlan
from noeta.chaos.locks import LockSampler
from noeta.chaos.nemesis import Nemesis
from noeta.chaos.plan import Plan, make_plan
from noeta.chaos.progress import Progress
from noeta.chaos.proxy import read_cuts, sum_of
from noeta.chaos.reaper import Reapers
from noeta.chaos.report import first_line
from noeta.chaos.sampler import Sampler
from noeta.chaos.sites import Ground, Opening, Site
from noeta.chaos.store_clock import clock_error
from noeta.chaos.store_view import ViewUnavailable
from noeta.chaos.storm_facts import facts_of
from noeta.chaos.versions import commit, versions
from noeta.core.store import Store

LOOK_SECONDS: Final = 0.25
OVERTIME_SECONDS: Final = 15.0
OVERTIME_SHARE: Final = 0.4
"""How long a storm goes on beyond its time for quotas that are not met, in shares of it."""
STUCK_LEASES: Final = 10.0
DRAIN_SECONDS: Final = 40.0
DRAIN_SECONDS_HARD: Final = 75.0
COLLECT_SECONDS: Final = 20.0
SALVAGE_SECONDS: Final = 5.0
STOP_SECONDS: Final = 10.0
LIVE_PER_LOOP: Final = 1.5
"""Unfinished tasks per worker loop that the loader keeps there: no loop is idle for want of work."""


class Storm:
    """The phases up to the check. Whatever it starts ends with ``run``."""

    def __init__(self, asked: Asked, site: Site, run_dir: RunDir, progress: Progress, interrupts: Interrupts) -> None:
        self.phases: dict[str, float] = {}
        self._asked, self._site, self._dir = asked, site, run_dir
        self._progress, self._interrupts = progress, interrupts
        self._board = Board()

    def run(self) -> None:
        """All phases; raises what stopped them, with everything cleaned up."""
        plan = make_plan(self._asked, self._asked.config(self._dir.root))
        plan.write(self._dir)
        self._write_run(plan)
        with ExitStack() as stack:
            # Whatever happens, nothing of ours is left: said in the evidence if it could not be kept.
            stack.callback(self._phase("clean up"))
            reapers = stack.enter_context(Reapers())
            with self._timed("prepare"):
                opening = Opening(self._dir, reapers, self._asked.keep, self._progress.line)
                ground = stack.enter_context(self._site.open(opening))
            config = self._asked.config(self._dir.root, ground.address, ground.schema)
            self._storm(stack, reapers, config, ground, plan)

    # -- prepare -------------------------------------------------------------------------------------------

    def _write_run(self, plan: Plan) -> None:
        asked = self._asked
        run = {
            "seed": str(asked.seed),
            "commit": commit(),
            "started_at": datetime.now(UTC).isoformat(),
            "config": dict(asked.config(self._dir.root).facts()),
            "store": dict(self._site.facts()),
            "versions": {**versions(), **self._site.versions()},
            "given": dict(asked.given),
            "required": dict(plan.required),
            "quotas": plan.schedule.quotas,
            "left_out": None if plan.left_out is None else dict(plan.left_out),
            "pid": os.getpid(),
            "mutant": asked.mutant,
        }
        self._dir.write_json(RUN, run)
        self._progress.line(first_line(run))
        self._progress.line(f"run directory: {self._dir.root}")
        for fault, why in (plan.left_out or {}).items():
            self._progress.line(f"left out: fault {fault} of the schedule: {why}")

    # -- load, storm, heal, drain, collect -----------------------------------------------------------------

    def _storm(self, stack: ExitStack, reapers: Reapers, config: Config, ground: Ground, plan: Plan) -> None:
        store = ground.open(8)
        stack.callback(store.close)
        rows = stack.enter_context(self._closing(ROWS))
        sampler = Sampler(ground.view("sampler"), self._board, rows)
        stack.callback(sampler.stop)
        locks = self._lock_sampler(stack, ground)
        history = History(stack.enter_context(self._closing(HISTORY)))
        cluster = stack.enter_context(
            self._killing(Cluster(config, reapers, mutant=self._asked.mutant, address_of=ground.worker_address))
        )
        own_store = ground.open(4)
        stack.callback(own_store.close)
        nemesis = stack.enter_context(
            Nemesis(
                plan.schedule,
                cluster,
                own_store,
                ground.server,
                self._dir.path(FAULTS),
                no_server=ground.no_server,
                keeps_out=ground.keeps_out,
                wire=ground.wire,
                no_wire=ground.no_wire,
            )
        )
        load = LoadPlan(
            plan.workload.tasks,
            plan.reserve.tasks,
            live_min=round(LIVE_PER_LOOP * config.workers * config.concurrency),
            storm_seconds=config.seconds,
            queue=config.queue,
        )
        loader = Loader(store, load, self._board, history, wants_more=lambda: not nemesis.quotas_met)
        stack.callback(loader.abandon)
        messages = (*plan.workload.messages, *plan.reserve.messages)
        one_shot = [task.id for task in (*load.tasks, *load.reserve) if not task.interactive]
        clients = Clients(store, messages, self._board, history, one_shot=one_shot)
        stack.callback(clients.stop)
        try:
            with self._timed("load"):
                sampler.start()
                if locks is not None:
                    locks.start()
                with ground.view("clock") as view:
                    self._dir.update_run(clock_error_seconds=clock_error(view))
                loader.load_start()
                clients.start()
                cluster.start()
            with self._timed("storm"):
                nemesis.start()
                loader.start()
                self._watch(nemesis, clients, config.seconds)
            with self._timed("heal"):
                self._heal(nemesis, loader, plan)
            with self._timed("drain"):
                drained = self._drain(config, cluster, loader, clients)
        except Exception:
            # What was written until here may still convict the store, whatever the harness died of.
            self._stop(clients, nemesis, cluster, sampler)
            self._collect(store, ground, loader, rows, timeout_seconds=SALVAGE_SECONDS)
            raise
        with self._timed("stop"):
            began = time.monotonic()
            self._stop(clients, nemesis, cluster, sampler)
            # Nobody polled meanwhile: a task that waited then is not to be called stuck for it.
            self._dir.update_run(drain=drained.later(time.monotonic() - began).as_dict())
        with self._timed("collect"):
            self._collect(store, ground, loader, rows, timeout_seconds=COLLECT_SECONDS)
            self._dir.update_run(**ground.facts())

    def _stop(self, clients: Clients, nemesis: Nemesis, cluster: Cluster, sampler: Sampler) -> None:
        """End everybody who writes, before the logs are copied: what is acknowledged after the copy would be lost."""
        clients.stop()
        nemesis.close()
        cluster.stop_all()
        sampler.stop()

    def _watch(self, nemesis: Nemesis, clients: Clients, seconds: float) -> None:
        """Until the time is up and the quotas are met, or nothing more is to be hoped for, or somebody interrupts."""
        began = time.monotonic()
        limit = seconds + max(OVERTIME_SECONDS, OVERTIME_SHARE * seconds) if self._asked.faults else seconds
        while not self._interrupts.stop.wait(LOOK_SECONDS):
            nemesis.check()
            passed = time.monotonic() - began
            result = nemesis.result()
            if passed >= limit or (passed >= seconds and result.quotas_met):
                break
            quotas = result.quotas
            self._progress.now(
                f"storm {passed:.0f}/{seconds:.0f} s: effective kills {result.effective_kills}/{quotas.kills}, "
                f"kill-alls {result.kill_alls}/{quotas.kill_alls}, pauses {result.effective_pauses}/{quotas.pauses}; "
                f"{self._standing(clients)}"
            )
        if self._interrupts.interrupted:
            self._dir.update_run(interrupted="once, during the storm")

    def _heal(self, nemesis: Nemesis, loader: Loader, plan: Plan) -> None:
        self._progress.line(f"storm over after {self.phases['storm']:.0f} s: healing")
        result = nemesis.stop_and_heal()
        # From the proxy's own record: with the storm healed nothing is cut any more.
        cuts = sum_of(read_cuts(self._dir.path(CUTS)))
        facts = facts_of(result, plan.schedule, self.phases["storm"], cuts)
        if self._interrupts.interrupted:
            loader.abandon()
        complete = loader.finish(STOP_SECONDS)
        self._dir.update_run(
            storm=facts,
            loaded={
                "created": len(loader.created),
                "sent": len(loader.sent),
                "refused": len(loader.refused),
                "complete": complete,
            },
        )

    def _drain(self, config: Config, cluster: Cluster, loader: Loader, clients: Clients) -> Drained:
        limits = DrainLimits(DRAIN_SECONDS, DRAIN_SECONDS_HARD, STUCK_LEASES * config.lease_seconds)
        drain = Drain(
            self._board,
            limits,
            queue=config.queue,
            loops=lambda: [loop for name in cluster.alive() for loop in config.loops_of(name)],
            created=lambda: loader.created,
            unsaid=lambda tasks: clients.unsaid(list(tasks)),
            clock=time.monotonic,
        )
        was = self._interrupts.interrupted
        drained = drain.run(
            self._interrupts.stop,
            lambda unfinished, unsaid: self._progress.now(
                f"draining: {len(unfinished)} unfinished, {len(unsaid)} messages unsaid; {self._standing(clients)}"
            ),
        )
        self._dir.update_run(drain=drained.as_dict())
        if self._interrupts.interrupted and not was:
            self._dir.update_run(interrupted="once, during the drain")
        return drained

    def _collect(self, store: Store, ground: Ground, loader: Loader, rows: Any, *, timeout_seconds: float) -> None:
        """Logs, final rows, journals; and a last sample of all rows: whoever wrote after an end shows there."""
        self._progress.now("copying the logs")
        with self._closing(LOG) as log, self._closing(FINALS) as finals:
            with ground.view("collect") as view:
                done = collect(store, view, log, finals, created=loader.created, timeout_seconds=timeout_seconds)
                try:
                    Sampler(view, self._board, rows).look()
                except ViewUnavailable as error:
                    self._progress.line(f"the last look at the rows failed: {error}")
        self._dir.update_run(collected=done.as_dict())
        self._dir.collect_journal()

    # -- helpers -------------------------------------------------------------------------------------------

    def _lock_sampler(self, stack: ExitStack, ground: Ground) -> LockSampler | None:
        """Who looks at the locks of the workers' sessions, where they have any; it ends with the storm. What is needed
        to judge what it sees stands in ``run.json``."""
        locks = ground.lock_view()
        if locks is None:
            self._dir.update_run(locks=None)
            return None
        # The workers are started without a timeout of their own.
        self._dir.update_run(locks={"statement_timeout_seconds": DEFAULT_STATEMENT_TIMEOUT})
        found = LockSampler(locks, stack.enter_context(self._closing(LOCKS)))
        stack.callback(found.stop)
        return found

    def _standing(self, clients: Clients) -> str:
        counts = self._board.counts()
        return (
            f"tasks {counts.total}: {counts.pending} pending, {counts.running} running, {counts.resting} at rest; "
            f"{clients.told.posted} posts"
        )

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        done = self._phase(phase)
        try:
            yield
        finally:
            done()

    def _phase(self, phase: str) -> Callable[[], None]:
        """Note, when called, how long the phase took since now (a clean-up: since the last phase ended)."""
        began = time.monotonic()

        def done() -> None:
            since = began if phase != "clean up" else began + sum(self.phases.values())
            self.phases[phase] = round(max(0.0, time.monotonic() - since), 3)
            self._dir.update_run(phases=self.phases)

        return done

    @contextmanager
    def _closing(self, name: str) -> Iterator[Any]:
        lines = self._dir.lines(name)
        try:
            yield lines
        finally:
            lines.close()

    @contextmanager
    def _killing(self, cluster: Cluster) -> Iterator[Cluster]:
        """Ends the workers; at once if we got here by an error or a second Ctrl-C."""
        try:
            yield cluster
        except BaseException:
            cluster.kill_all_now()
            raise
        finally:
            cluster.stop_all()
            left = [worker.process for worker in cluster.all if worker.is_running]
            if left:
                self._dir.update_run(left_behind=left)
