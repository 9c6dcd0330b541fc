"""Races inside SQL: every ordered pair of write verbs against the memory store (`noeta/testing/race_matrix.py`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from noeta.testing.race_matrix import (
    LEVELS,
    PINNED,
    Arena,
    Report,
    default_isolation,
    race_level,
    run_matrix,
)
from noeta.testing.race_moves import first_of_its_verbs, moves, spans
from noeta.testing.race_scenes import SKIPPING, Move, Scene, scenes

SCENES = {scene.name: scene for scene in scenes()}

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
    "resume without the row lock": (
        "kept, timer due",
        """
    SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_task_id FOR UPDATE;
    IF NOT FOUND THEN
        o_outcome := 'unknown';
        RETURN;
    END IF;
    o_now := """,
        """
    SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_task_id;
    IF NOT FOUND THEN
        o_outcome := 'unknown';
        RETURN;
    END IF;
    o_now := """,
    ),
    "a timer fires without the row lock": (
        "timer due",
        "SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = c.id FOR UPDATE SKIP LOCKED;",
        "SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = c.id;",
    ),
    "a group counts before the lock": (
        "parent waits for a group",
        "v_missing := v_row.wake_missing - 1;",
        "v_missing := v_missing - 1;",
    ),
    "cancel without the row lock": (
        "pending",
        "WHERE t.id = ANY (p_ids || v_children) ORDER BY t.id FOR UPDATE;",
        "WHERE t.id = ANY (p_ids || v_children) ORDER BY t.id;",
    ),
    "an adopted child never asks whether its root lives": (
        "root runs",
        "IF v_parent_lives IS NOT TRUE THEN",
        "IF false THEN",
    ),
    "an adopted child asks without the lock of its root": (
        "root runs",
        "p_post_task || p_child_parent || p_task_id, CASE",
        "p_post_task || p_task_id, CASE",
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

CANCEL_READS = """\
    SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_task_id FOR UPDATE;
    IF NOT FOUND THEN
        o_outcome := 'unknown';
        RETURN;
    END IF;
    IF v_row.parent"""

ROOT_IS_WRITTEN = """\
        UPDATE {schema}.task t SET inbox_seq = t.inbox_seq WHERE t.id = p_child_parent[i]
        RETURNING t.status <> 'terminal' INTO v_parent_lives;"""
ROOT_IS_READ = """\
        SELECT t.status <> 'terminal' INTO v_parent_lives FROM {schema}.task t WHERE t.id = p_child_parent[i];"""

MORE: dict[str, list[tuple[str, str]]] = {
    "cancel without the row lock": [(CANCEL_READS, CANCEL_READS.replace(" FOR UPDATE;", ";"))],
    "an adopted child asks without the lock of its root": [(ROOT_IS_WRITTEN, ROOT_IS_READ)],
    "suspend reads a stale inbox": [STALE_INBOX, STALE_VARIABLE],
    "a group counts before the lock": [
        ("t.id = ANY (p_post_task || p_task_id) ORDER BY", "t.id = p_task_id ORDER BY"),
        ("    v_missing := v_row.wake_missing;\n", ""),
        (
            "    o_made_ready := false;\n    SELECT t.* INTO v_row",
            (
                "    o_made_ready := false;\n"
                "    SELECT t.wake_missing INTO v_missing FROM {schema}.task t WHERE t.id = p_task_id;\n"
                "    SELECT t.* INTO v_row"
            ),
        ),
    ],
}
"""What else must be replaced for a planted bug to show."""


def all_pairs(a: Move, b: Move) -> bool:
    return True


def ends(move: Move) -> bool:
    """Whether others of its family hear of it."""
    return move.verb in ("cancel", "fail", "append_family") or move.name.startswith("wake t with")


def meets(move: Move) -> bool:
    """What an end may meet: another one, what looks at its children or at its parent, and what bears more of them."""
    return (
        ends(move) or move.verb in SKIPPING or move.name.startswith(("append with child", "append suspend on children"))
    )


def of_a_family(a: Move, b: Move) -> bool:
    return spans(a, b) and ends(a) and meets(b)


def wanted_of(scene: Scene) -> Callable[[Move, Move], bool]:
    """Which pairs are raced here: those of one task, and those that span a family, one of them an end."""
    if len(scene.tasks) == 1:
        return all_pairs
    return spans if scene.name == "parent runs" else of_a_family


@pytest.mark.holds("writer/two-conditions")
@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_every_pair_equals_one_of_its_two_orders(pg_schema: tuple[str, str], name: str) -> None:
    """At READ COMMITTED, in every scene; what is left out here, `python -m noeta.testing.race_matrix` races.

    Keeps: one-writer, taken-once, wake-once, terminal-is-final, gapless-log, children-once.
    https://github.com/langchain-ai/langgraph/pull/7207 (a write whose check was passed before another's landed)
    """
    scene = SCENES[name]
    wants = wanted_of(scene)
    report = race(*pg_schema, scene, commits_only=name != "running", wants=wants)

    wanted = sum(itertools.starmap(wants, itertools.product(moves(scene), repeat=2)))
    assert report.pairs == wanted * (2 if name == "running" else 1)
    assert report.waited > 0
    assert not report.disagreements, report.disagreements[0]


def test_every_verb_that_writes_is_raced_against_every_other() -> None:
    writes = {"create", "claim", "renew", "release", "append", "append_family", "append_many", "fail", "post"}
    writes |= {"resume", "cancel", "wake", "fire_due_timers", "requeue_stale", "put_content", "put_snapshot"}
    chosen = first_of_its_verbs(SCENES["parent runs"])
    pairs = [(a.verb, b.verb) for a, b in itertools.product(moves(SCENES["parent runs"]), repeat=2) if chosen(a, b)]

    assert sorted(pairs) == sorted(itertools.product(writes, repeat=2))


@pytest.mark.slow
@pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "pin removed"])
@pytest.mark.parametrize("level", LEVELS[1:])
def test_the_fence_does_not_lean_on_the_default_isolation(pg_schema: tuple[str, str], level: str, pinned: bool) -> None:
    """As the database's default, and also with the session's own pin removed: run again, never wrong."""
    dsn, schema = pg_schema
    family, tree = SCENES["parent runs"], SCENES["root runs"]
    chosen = ((SCENES["running"], all_pairs), (family, first_of_its_verbs(family)), (tree, adopts_while_it_ends))
    with default_isolation(dsn, level):
        for scene, wants in chosen:
            report = race(dsn, f"{schema}_{len(scene.tasks)}", scene, pinned=pinned, commits_only=True, wants=wants)

            assert not report.disagreements, report.disagreements[0]
            assert report.rerun == 0 or not pinned


@pytest.mark.slow
def test_a_root_that_is_locked_and_not_written_is_ended_from_an_old_snapshot(pg_schema: tuple[str, str]) -> None:
    """What the pin hides: the second line of defence is seen to be missing."""
    dsn, schema = pg_schema
    with default_isolation(dsn, "repeatable read"):
        report = race(
            dsn,
            schema,
            SCENES["root runs"],
            patches=[(ROOT_IS_WRITTEN, ROOT_IS_READ)],
            pinned=False,
            commits_only=True,
            wants=adopts_while_it_ends,
        )

    assert report.disagreements, report


def adopts_while_it_ends(a: Move, b: Move) -> bool:
    """The root's row is locked by who bears a child for it; a snapshot of before must not do for who ends it."""
    return spans(a, b) and ends(b) and a.name.startswith("append with adopted")


@pytest.mark.slow
def test_the_command_races_what_it_is_asked_for(pg_dsn: str) -> None:
    scene = SCENES["nothing"]
    everything = len(moves(scene)) ** 2

    whole = race_level(pg_dsn, "serializable", pinned=False, quick=False, chosen=[scene])
    quick = race_level(pg_dsn, "serializable", pinned=True, quick=True, chosen=[scene])

    assert (whole.pairs, quick.pairs) == (2 * everything, everything)
    assert not whole.disagreements + quick.disagreements


@pytest.mark.slow
@pytest.mark.parametrize("bug", MUTANTS)
def test_a_planted_bug_is_caught(pg_schema: tuple[str, str], bug: str) -> None:
    scene, old, new = MUTANTS[bug]
    patches = [(old, new), *MORE.get(bug, [])]
    wants = wanted_of(SCENES[scene])

    report = race(*pg_schema, SCENES[scene], patches=patches, commits_only=True, disagreements_max=1, wants=wants)

    assert report.disagreements, report


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
