"""Races inside SQL: every ordered pair of write verbs against the memory store (`noeta/testing/race_matrix.py`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql

from noeta.testing.race_matrix import PINNED, Arena, Report, run_matrix
from noeta.testing.race_scenes import Move, Scene, moves, scenes

SCENES = {scene.name: scene for scene in scenes()}
LEVELS = ("repeatable read", "serializable")

MUTANTS: dict[str, tuple[str, str, str]] = {
    "claim without the row lock": (
        "pending",
        "SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = c.id FOR UPDATE SKIP LOCKED;",
        "SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = c.id;",
    ),
    "post to a task that just ended": (
        "running",
        "SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_task_id FOR UPDATE;",
        "SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_task_id;",
    ),
    "suspend reads a stale inbox": (
        "running",
        "    o_inbox_seq := v_row.inbox_seq;\n",
        "    v_row.inbox_seq := v_stale; o_inbox_seq := v_row.inbox_seq;\n",
    ),
    "renew without the row lock": (
        "running",
        "SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_ids[i] FOR UPDATE SKIP LOCKED;",
        "SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_ids[i];",
    ),
    "a timer fires without the row lock": (
        "timer due",
        "SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = c.id FOR UPDATE SKIP LOCKED;",
        "SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = c.id;",
    ),
    "no expected_seq": ("running", "IF v_row.last_seq <> p_expected_seq THEN", "IF false THEN"),
}
"""Planted bugs: the scene that shows it, the SQL replaced, and by what."""

STALE_INBOX = (
    "    IF cardinality(p_post_task) > 0 THEN\n        PERFORM 1",
    (
        "    SELECT t.inbox_seq INTO v_stale FROM {schema}.task t WHERE t.id = p_task_id;\n"
        "    IF cardinality(p_post_task) > 0 THEN\n        PERFORM 1"
    ),
)
STALE_VARIABLE = (
    "    v_refused text[] := ARRAY[]::text[];\n",
    "    v_refused text[] := ARRAY[]::text[];\n    v_stale bigint;\n",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_every_pair_equals_one_of_its_two_orders(pg_schema: tuple[str, str], name: str) -> None:
    """Keeps: one-writer, taken-once, wake-once, terminal-is-final, gapless-log, children-once."""
    scene = SCENES[name]
    alone = len(scene.tasks) == 1
    report = race(*pg_schema, scene, commits_only=not alone, wants=lambda a, b: alone or spans(a, b))

    assert report.pairs == (2 * len(moves(scene)) ** 2 if alone else sum(map(spans, *pairs_of(scene))))
    assert report.waited > 0
    assert not report.disagreements, report.disagreements[0]


@pytest.mark.slow
@pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "pin removed"])
@pytest.mark.parametrize("level", LEVELS)
def test_the_fence_does_not_lean_on_the_default_isolation(pg_schema: tuple[str, str], level: str, pinned: bool) -> None:
    """As the database's default, and also with the session's own pin removed: run again, never wrong."""
    dsn, schema = pg_schema
    with default_isolation(dsn, level):
        for name in ("running", "timer due", "lapsed"):
            report = race(dsn, f"{schema}_{name[:2]}", SCENES[name], pinned=pinned, commits_only=True)

            assert not report.disagreements, report.disagreements[0]
            assert report.rerun == 0 or not pinned


@pytest.mark.slow
@pytest.mark.parametrize("bug", MUTANTS)
def test_a_planted_bug_is_caught(pg_schema: tuple[str, str], bug: str) -> None:
    scene, old, new = MUTANTS[bug]
    patches = [(old, new)]
    if "v_stale" in new:
        patches += [STALE_INBOX, STALE_VARIABLE]

    report = race(*pg_schema, SCENES[scene], patches=patches, commits_only=True, disagreements_max=1)

    assert report.disagreements, report


def spans(a: Move, b: Move) -> bool:
    """Whether a pair has to do with parent and child: both on one task are raced in the scenes of one task."""
    return len({*a.tasks, *b.tasks}) > 1


def pairs_of(scene: Scene) -> tuple[list[Move], list[Move]]:
    pairs = list(itertools.product(moves(scene), moves(scene)))
    return [a for a, _ in pairs], [b for _, b in pairs]


def race(
    dsn: str,
    schema: str,
    scene: Scene,
    *,
    patches: list[tuple[str, str]] | None = None,
    pinned: bool = True,
    commits_only: bool = False,
    disagreements_max: int = 3,
    wants: Callable[[Move, Move], bool] = lambda a, b: True,
) -> Report:
    arena = Arena(dsn, schema, patches=patches or [], settings=replace(PINNED, pins=pinned))
    try:
        report = run_matrix(
            arena,
            chosen=[scene],
            endings=(True,) if commits_only else (True, False),
            disagreements_max=disagreements_max,
            wants=wants,
        )
    finally:
        arena.close()
    print(report)
    return report


@contextmanager
def default_isolation(dsn: str, level: str) -> Iterator[None]:
    """For sessions that begin meanwhile; other tests' sessions pin their own."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        database = sql.Identifier(connection.info.dbname)
        connection.execute(
            sql.SQL("ALTER DATABASE {} SET default_transaction_isolation = {}").format(database, sql.Literal(level))
        )
        try:
            yield
        finally:
            connection.execute(sql.SQL("ALTER DATABASE {} RESET default_transaction_isolation").format(database))
