"""Parking through deaths and lost answers: all of a park is in the log, or nothing, and whoever claims next goes on
from there."""

from __future__ import annotations

from typing import Any

import pytest

from noeta.core import texts
from noeta.core.events import TaskSuspended, ToolStarted
from noeta.core.runner import Held, Runner
from noeta.core.task import Status
from noeta.core.tool import MAX_ATTEMPTS, OnUnknown
from noeta.core.world import ProcessDied
from noeta.plugins import waiting_tools
from noeta.runtime.process import PointStore
from noeta.testing.faults import Fault, Kind
from tests.actors import PointWorld, asks, die, says
from tests.unit.runtime.gating import (
    HERE,
    PARKED,
    POINTS_MAX,
    POINTS_MIN,
    Mortal,
    Notes,
    agent,
    interrupted,
    is_parked,
    kinds,
    lives,
    of,
    say,
    told,
)
from tests.unit.runtime.machines import LEASE, Site, calls


def test_a_death_at_any_point_of_parking_leaves_all_of_it_or_nothing() -> None:
    """And the one after it parks, if it was nothing. Keeps: effect-at-most-once, never-stuck."""
    dies_at, lived, before = 0, False, 0
    while not lived:
        dies_at += 1
        assert dies_at < POINTS_MAX
        site, ran = interrupted()
        left = kinds(site)
        lived = lives(site.machine("mortal", Mortal(dies_at)))
        assert kinds(site) in (left, [*left, *PARKED]), dies_at
        before += kinds(site) == left
        _park_and_resume(site)
        assert (len(ran), [told.output for told in told(site)]) == (1, [texts.OUTCOME_UNKNOWN]), dies_at
        assert kinds(site).count("NoticeGiven") == 1, dies_at
    assert before > 1 and dies_at > before + 1


@pytest.mark.holds("outcome/crash-is-no-error")
@pytest.mark.parametrize("retry_safe", [False, True])
def test_two_deaths_at_any_points_from_the_call_to_its_end(retry_safe: bool) -> None:
    """The second one also in the middle of parking. Whatever is left, somebody's word brings it to its end, and what
    is not safe ran once. Keeps: effect-at-most-once, bounded."""
    first, whole = 0, False
    while not whole:
        first += 1
        second, lived = 0, False
        while not lived:
            second += 1
            assert first + second < POINTS_MAX
            ran: list[Any] = []
            site = Site(main=agent(asks=asks("pay"), tools=(Notes("pay", ran, retry_safe),), more=(says("and then"),)))
            site.create(interactive=True)
            whole = lives(site.machine("first", Mortal(first)))
            site.seconds += LEASE
            lived = lives(site.machine("second", Mortal(second))) or whole
            _park_and_resume(site)

            where = (first, second, kinds(site))
            assert len(ran) <= (MAX_ATTEMPTS if retry_safe else 1), where
            assert len(of(ToolStarted, site)) <= (MAX_ATTEMPTS if retry_safe else 1), where
            assert len(told(site)) == 1, where
            assert kinds(site).count("NoticeGiven") == kinds(site).count("TaskWoken") <= 1, where
            assert site.events()[-1] in (TaskSuspended(HERE, "done"), TaskSuspended(HERE, "and then")), where
    assert first > POINTS_MIN


def _park_and_resume(site: Site) -> None:
    """The next machines; if the task is parked, a person speaks."""
    for n in range(3):
        site.seconds += LEASE
        site.machine(f"next{n}").rest()
        if is_parked(site):
            say(site)
            site.machine(f"resumes{n}").rest()


@pytest.mark.parametrize("kind", [Kind.LANDED, Kind.NOT_LANDED, Kind.UNAVAILABLE, Kind.LANDS_LATER])
def test_a_park_whose_outcome_is_unknown_is_made_once(kind: Kind) -> None:
    """Whoever claims next reads the log. Keeps: acked-stays, one-writer."""
    site, ran = interrupted()
    left = kinds(site)
    later = 1 if kind is Kind.LANDS_LATER else None
    site.store.add(Fault(kind, "append", later_calls=later))

    site.machine("w2").rest()
    site.seconds += LEASE
    site.machine("w3").rest()

    assert not site.store.unfired()
    assert kinds(site) == [*left, *PARKED]
    assert (is_parked(site), len(ran)) == (True, 1)


def test_a_park_is_one_commit_however_much_the_turn_gives_up() -> None:
    """What does not fit with it goes before it: nothing is sealed that does not rest. Keeps: never-stuck."""
    members = [{"agent": "helper", "prompt": "wait"}] * 100
    reply = calls(*[("AgentGroup", {"members": members})] * 6, ("pay", {}))
    tools = (*waiting_tools().values(), Notes("pay", [], after=die))
    site = Site(main=agent(asks=reply, tools=tools))
    site.create()
    assert _drive_t(site, PointWorld()) is None
    left = kinds(site)
    for dies_at in range(1, 10):
        site.seconds += 60 * LEASE  # and whatever a takeover makes it wait
        if _drive_t(site, Mortal(dies_at, lambda point: point == "append.before")) == "stopped":
            break
        assert kinds(site) == left, dies_at

    assert dies_at > 1
    assert kinds(site) == [*left, *PARKED]
    orders = [item for row in site.rows() if row.id != "t" for item in site.store.read(row.id).unread]
    assert len(orders) + [row.status for row in site.rows()].count(Status.TERMINAL) >= 600


def _drive_t(site: Site, world: PointWorld) -> str | None:
    """One drive of the task alone, its children left where they are; None if the process died."""
    claims = [one for _ in range(9) for one in site.store.claim("w", None, LEASE, limit=100).claims]
    (claim,) = [one for one in claims if one.task_id == "t"]
    store = PointStore(site.store, world)
    held = Held(world, store, claim, world.monotonic() + 1e6)
    engine = site.agents["main"]
    try:
        return Runner(lambda state: engine, world, store, held, on_unknown=OnUnknown.PARK).drive()
    except ProcessDied:
        return None
