"""Every node of a tree recovers on its own: a process dies at any point, and the next one finishes what it held."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from noeta.core.events import TaskCompleted
from noeta.core.task import Status, TaskRow
from noeta.core.wake import SubtaskCompleted, SubtaskGroupCompleted
from noeta.core.world import ProcessDied
from tests.actors import PointWorld
from tests.unit.runtime.machines import LEASE, Site, delegates, fans_out, helper_agent, main_agent

TREE = ["t", "t/1", "t/1/1", "t/2"]
"""The places of a tree's tasks: their ids without the calls, whose numbers grow when a model is asked again."""

POINTS_MIN = 50


class Mortal(PointWorld):
    """A world that ends at the n-th crash point: from there on nothing of its process gets through."""

    def __init__(self, dies_at: int) -> None:
        super().__init__(self._count)
        self._dies_at = dies_at
        self.seen = 0

    def _count(self, name: str, facts: Mapping[str, object]) -> None:
        self.seen += 1
        if self.seen >= self._dies_at:
            raise ProcessDied


def a_tree() -> Site:
    """A root that fans out to two, the first of which delegates again."""
    site = Site(
        root=main_agent(fans_out("middle", "leaf")), middle=main_agent(delegates("leaf")), leaf=helper_agent("42")
    )
    site.create("t", "root")
    return site


def finish(site: Site) -> None:
    """The next machines, each after the leases of the last one."""
    for n in range(20):
        if {row.status for row in site.rows()} == {Status.TERMINAL}:
            return
        site.seconds += LEASE
        site.machine(f"next{n}").rest()
    raise AssertionError({row.id: row.status for row in site.rows()})


def run_until(dies_at: int) -> tuple[Site, bool]:
    """The tree, run by a machine that dies at this point; whether it lived to see the end."""
    site = a_tree()
    try:
        site.machine("mortal", Mortal(dies_at)).rest()
    except ProcessDied:
        return site, False
    return site, True


def place(text: str) -> str:
    """A task's id, or a text with ids in it, with places instead."""
    return re.sub(r"\.\d+-\d+\.(?=\d)", "/", text)


def by_place(site: Site) -> dict[str, TaskRow]:
    rows = {place(row.id): row for row in site.rows()}
    assert len(rows) == len(site.rows()), "a child was born twice"
    return rows


@pytest.mark.holds("subtask/recovers-alone", "tool/clean-up", "tool/children-with-result", "tool/children-crash")
def test_a_death_at_any_point_of_a_tree_costs_one_node_one_claim_and_loses_nothing() -> None:
    """Each child is born once, each result told once, and only the task that the dead process held is taken over.
    Keeps: children-once, wake-once, never-stuck."""
    undisturbed, _ = run_until(1_000_000)
    epochs = {where: row.epoch for where, row in by_place(undisturbed).items()}
    assert sorted(epochs) == TREE
    dies_at, lived = 0, False
    while not lived:
        dies_at += 1
        site, lived = run_until(dies_at)
        finish(site)

        rows = by_place(site)
        assert sorted(rows) == TREE, dies_at
        assert {type(site.events(row.id)[-1]) for row in rows.values()} == {TaskCompleted}, dies_at
        more = [row.epoch - epochs[where] for where, row in rows.items()]
        assert sorted(more)[:-1] == [0] * (len(TREE) - 1) and max(more) <= 1, (dies_at, more)
        assert site.woken(rows["t/1"].id) == [SubtaskCompleted(rows["t/1/1"].id, "completed", "42")], dies_at
        (event,) = site.woken("t")
        assert isinstance(event, SubtaskGroupCompleted)
        assert [result.subtask_id for result in event.results] == [rows["t/1"].id, rows["t/2"].id], dies_at
        assert [place(result) for result in site.results("t")] == [
            "Task t/1 completed:\ndone\n\nTask t/2 completed:\n42"
        ]
    assert dies_at > POINTS_MIN, "the tree passed next to no points"
