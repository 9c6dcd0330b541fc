"""Every ordered pair of write verbs, one inside an open transaction of the other, against the memory store.

    python -m noeta.testing.race_matrix [--level LEVEL] [--scene SCENE] [--quick]

A runs in an open transaction; B is sent on another connection; when B is blocked or done, A commits or rolls
back. Answers and visible state must equal A then B, or B then A, on the memory store (B alone, if A was rolled
back): `race_orders.py`. What the simulator cannot see, because the memory store has one lock: races inside SQL.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import psycopg

from noeta.backends.stores.memory import MemoryStore
from noeta.backends.stores.pg_claims import ClaimBounds
from noeta.backends.stores.pg_connection import Connection, Settings
from noeta.backends.stores.pg_errors import Failure
from noeta.backends.stores.pg_migrate import STORE, apply_migrations
from noeta.backends.stores.postgres import PostgresStore
from noeta.backends.stores.sql_loader import load_statements
from noeta.core.ids import MICROS_PER_SECOND
from noeta.testing.postgres import NoPostgres, Server, ServerFailed, find_source, fresh_schema
from noeta.testing.race_moves import moves, spans, spans_and_is_first
from noeta.testing.race_orders import Outcome, allowed, answer_of, state_of
from noeta.testing.race_scenes import START_SECONDS, Move, Scene, Stage, scenes

BLOCKED_LOOKS_MAX: Final = 20_000
"""Looks at pg_blocking_pids before a pair is given up: each is a round trip, so this is seconds, not a sleep."""

VACUUM_EVERY: Final = 200
"""Races between two looks for what the races before left dead: it doubled the time of a pair."""

PINNED: Final = Settings(application_name="noeta race matrix", statement_timeout_seconds=10, lock_timeout_seconds=8)


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A pair whose outcome no order explains."""

    scene: str
    first: str
    second: str
    ending: str
    found: Outcome
    allowed: tuple[tuple[str, Outcome], ...]

    def __str__(self) -> str:
        lines = [f"{self.scene}: {self.first} | {self.second} ({self.ending})"]
        for order, outcome in self.allowed:
            lines.append(f"  not {order}:")
            lines += [f"    {difference}" for difference in self.found.differences(outcome)]
        return "\n".join(lines)


@dataclass(slots=True)
class Report:
    """How many pairs were raced, in how many B waited for A, and which no order explains."""

    pairs: int = 0
    waited: int = 0
    rerun: int = 0
    aborted: int = 0
    disagreements: list[Disagreement] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Count another report in."""
        self.pairs += other.pairs
        self.waited += other.waited
        self.rerun += other.rerun
        self.aborted += other.aborted
        self.disagreements += other.disagreements

    def __str__(self) -> str:
        return (
            f"race matrix: {self.pairs} pairs, {self.waited} waited, {self.rerun} transactions run again, "
            f"{self.aborted} commits refused, {len(self.disagreements)} disagreements"
        )


class Arena:
    """A schema with a clock of its own, two stores on it, and the memory store beside them."""

    def __init__(
        self, dsn: str, schema: str, *, patches: Sequence[tuple[str, str]] = (), settings: Settings = PINNED
    ) -> None:
        apply_migrations(dsn, schema, patches=patches)
        self._sql = load_statements(STORE, schema, "testing.sql")
        self._admin = Connection(dsn, PINNED)
        for name in ("create_clock", "replace_clock", "create_state"):
            self._ask(name)
        for name in ("call_create_state", "create_save_state", "create_restore_state"):
            self._ask(name)
        self._stores = [PostgresStore(dsn, schema=schema, settings=settings, allow_unsafe=True) for _ in range(2)]
        self._lenders = [_Lender(Connection(dsn, settings)) for _ in self._stores]
        for store, lender in zip(self._stores, self._lenders, strict=True):
            store._work = store._renewals = lender  # type: ignore[assignment]
        self.now = START_SECONDS * MICROS_PER_SECOND
        self._races = 0

    def close(self) -> None:
        for connection in (self._admin, *(lender.connection for lender in self._lenders)):
            connection.close()

    def build(self, scene: Scene) -> tuple[MemoryStore, Stage]:
        """Lead both stores to the scene, remember it, and move to the instant of the race."""
        self._set_clock(START_SECONDS)
        self._ask("clear_state")
        memory = _memory(self)
        claims = scene.build(memory)
        assert scene.build(self._stores[0]) == claims, scene.name
        self._ask("save_state")
        seqs = {task: memory.task(task).last_seq for task in claims}
        self._set_clock(START_SECONDS + scene.later_seconds)
        return memory, Stage(claims, seqs)

    def race(self, stage: Stage, a: Move, b: Move, *, commits: bool) -> tuple[Outcome, bool, bool]:
        """One pair; the outcome, whether B waited for A, and whether A landed."""
        self._races += 1
        if self._races % VACUUM_EVERY == 0:
            for table in ("task", "entry", "item"):
                self._ask(f"vacuum_{table}")
        self._ask("restore_state")
        bodies = a.stores_bodies or b.stores_bodies
        for store in self._stores:
            store._bounds = ClaimBounds()
        holder, other = self._lenders
        holder.run(self._sql, "begin")
        first = answer_of(a, self._stores[0], stage, "A")
        answers: list[object] = []
        thread = threading.Thread(target=lambda: answers.append(answer_of(b, self._stores[1], stage, "B")))
        thread.start()
        waited = self._wait_until_blocked_or_done(thread, other.connection.backend_pid)
        landed = commits
        try:
            holder.run(self._sql, "commit" if commits else "rollback")
        except Failure as failure:
            if not failure.is_rerun:
                raise
            landed = False  # SERIALIZABLE may refuse the commit: then A never was
        thread.join()
        return Outcome(first, answers[0], state_of(self._stores[1], bodies)), waited, landed

    @property
    def retries(self) -> int:
        return sum(store.retries for store in self._stores)

    def _wait_until_blocked_or_done(self, thread: threading.Thread, pid: int) -> bool:
        for _ in range(BLOCKED_LOOKS_MAX):
            if not thread.is_alive():
                return False
            if self._admin.run("is_waiting", self._sql["is_waiting"], [pid]) == [(b"t",)]:
                return True
        raise TimeoutError("B neither waits nor ends")

    def _set_clock(self, seconds: int) -> None:
        self.now = seconds * MICROS_PER_SECOND
        self._admin.run("set_clock", self._sql["set_clock"], [self.now])

    def _ask(self, name: str) -> None:
        self._admin.run(name, self._sql[name], ())


class _Lender:
    """Stands in for a pool: always lends the same connection, so that a transaction can be held open around it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        yield self.connection

    def run(self, statements: dict[str, str], name: str) -> None:
        self.connection.run(name, statements[name], ())

    def distrust_idle(self) -> None:
        raise AssertionError("a connection of the race matrix broke")


def run_matrix(
    arena: Arena,
    *,
    chosen: Sequence[Scene] | None = None,
    endings: Sequence[bool] = (True, False),
    disagreements_max: int = 20,
    wants: Callable[[Move, Move], bool] | None = None,
) -> Report:
    """Race every ordered pair of every scene, and say which outcome no order explains.

    ``wants`` None: of a family only pairs that span it, and of those that are rolled back only the first move of each
    verb.
    """
    report = Report()
    for scene in chosen if chosen is not None else scenes():
        memory, stage = arena.build(scene)
        here = moves(scene)
        chosen_by = {commits: wants or _wanted(scene, commits) for commits in endings}
        for a, b in itertools.product(here, here):
            for commits in endings:
                if not chosen_by[commits](a, b):
                    continue
                found, waited, landed = arena.race(stage, a, b, commits=commits)
                report.pairs += 1
                report.waited += waited
                report.aborted += commits and not landed
                orders = partial(allowed, memory, stage, a, b, landed=landed, waited=waited, found=found)
                if all(found != outcome for _, outcome in orders()):
                    ending, explained = "commit" if landed else "rollback", tuple(orders())
                    report.disagreements.append(Disagreement(scene.name, a.name, b.name, ending, found, explained))
                    if len(report.disagreements) >= disagreements_max:
                        report.rerun = arena.retries
                        return report
    report.rerun = arena.retries
    return report


def _wanted(scene: Scene, commits: bool) -> Callable[[Move, Move], bool]:
    if len(scene.tasks) == 1:
        return lambda a, b: True
    return spans if commits else spans_and_is_first(scene)


def _memory(arena: Arena) -> MemoryStore:
    return MemoryStore(lambda: arena.now / MICROS_PER_SECOND, sweeps_when_full=False)


LEVELS: Final = ("read committed", "repeatable read", "serializable")


@contextmanager
def default_isolation(dsn: str, level: str) -> Iterator[None]:
    """The database's default for sessions that begin meanwhile; the store's own sessions pin theirs."""
    sql = load_statements(STORE, "noeta", "testing.sql")
    with psycopg.connect(dsn, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:

        def run(name: str, *values: str) -> None:
            row = connection.execute(sql[name].encode(), values).fetchone()
            assert row is not None
            connection.execute(str(row[0]).encode())

        run("default_isolation", level)
        try:
            yield
        finally:
            run("no_default_isolation")


def race_level(dsn: str, level: str, *, pinned: bool, quick: bool, chosen: Sequence[Scene] | None = None) -> Report:
    """Every scene with this level as the database's default, in a schema of its own.

    ``pinned``: the sessions pin READ COMMITTED, as the store does; otherwise transactions may be run again (40001),
    and the outcome must be right all the same. Of families only pairs that span them. ``quick``: commits only.
    """
    total = Report()
    with default_isolation(dsn, level):
        for scene in scenes() if chosen is None else chosen:
            with (
                fresh_schema(dsn) as lease,
                closing(Arena(dsn, lease.name, settings=replace(PINNED, pins=pinned))) as arena,
            ):
                total.add(run_matrix(arena, chosen=[scene], endings=(True,) if quick else (True, False)))
    return total


def main(args: Sequence[str] | None = None) -> int:
    """Race everything and print the counts of each level; 1 if an outcome is explained by no order."""
    parser = argparse.ArgumentParser(
        "python -m noeta.testing.race_matrix",
        description="Every ordered pair of write verbs, in every scene, committed and rolled back, at three isolation "
        "levels as the database's default: with the sessions' own pin, and with the pin removed. A quarter of an hour. "
        "Of families only the pairs that span them, and rolled back only the first move of each verb.",
    )
    parser.add_argument("--level", action="append", choices=LEVELS, help="repeatable; default: all three")
    parser.add_argument("--scene", action="append", choices=[scene.name for scene in scenes()], help="repeatable")
    parser.add_argument("--quick", action="store_true", help="commits only")
    asked = parser.parse_args(args)
    chosen = [scene for scene in scenes() if asked.scene is None or scene.name in asked.scene]
    wrong = 0
    try:
        with Server(find_source(os.environ)) as server:
            for level in asked.level or LEVELS:
                # At READ COMMITTED the pin changes nothing.
                for pinned in (True,) if level == LEVELS[0] else (True, False):
                    report = race_level(server.dsn, level, pinned=pinned, quick=asked.quick, chosen=chosen)
                    print(f"{level}, {'pinned' if pinned else 'pin removed'}: {report}", flush=True)
                    for disagreement in report.disagreements:
                        print(disagreement, flush=True)
                    wrong += len(report.disagreements)
                    wrong += pinned and report.rerun > 0  # the pin is there to make this nought
    except (NoPostgres, ServerFailed) as error:
        print(f"race matrix: {error}", file=sys.stderr)
        return 3
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
