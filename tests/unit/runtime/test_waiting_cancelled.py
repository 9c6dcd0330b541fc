"""Any status that has not ended can be cancelled: at once where nobody runs the task, and by its owner where somebody
does."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from noeta.core.events import TaskCancelled
from noeta.core.model import ModelReply
from noeta.core.task import Status
from noeta.core.tool import StepCancelled, ToolContext
from noeta.core.wake import SubtaskCompleted
from noeta.runtime.threads import ThreadWorld
from tests.actors import PATIENCE_SECONDS, Beats, Effect, Model, asks, engine, says, wait_until
from tests.unit.runtime.machines import (
    LEASE,
    Site,
    asks_event,
    asks_person,
    asks_timer,
    delegates,
    fans_out,
    main_agent,
)


def new(site: Site) -> None:
    site.create()


def backing_off(site: Site) -> None:
    site.create(delay_seconds=1_000.0)


def lapsed(site: Site) -> None:
    site.create()
    assert site.store.claim("died", None, LEASE).claims
    site.seconds += LEASE


def waiting(site: Site) -> None:
    site.create()
    assert site.machine().loop.tick()
    assert site.row().status is Status.SUSPENDED


def woken(site: Site) -> None:
    waiting(site)
    site.seconds += 90.0
    site.outsider().fire_due_timers()
    assert site.row().status is Status.PENDING


def between_turns(site: Site) -> None:
    site.create(interactive=True)
    assert site.machine().loop.tick()
    assert site.row().status is Status.SUSPENDED


@pytest.mark.parametrize(
    ("reach", "reply"),
    [
        (new, says()),
        (backing_off, says()),
        (lapsed, says()),
        (waiting, asks_person()),
        (waiting, asks_timer(90.0)),
        (waiting, asks_event("deployed")),
        (waiting, delegates("helper")),
        (waiting, fans_out("helper", "helper")),
        (woken, asks_timer(90.0)),
        (between_turns, says()),
    ],
    ids=[
        "pending",
        "backing off",
        "lease lapsed",
        "waits for a person",
        "waits for a timer",
        "waits for an event",
        "waits for a subtask",
        "waits for a group",
        "woken",
        "between two turns",
    ],
)
@pytest.mark.holds("status/any-can-be-cancelled")
def test_a_task_that_nobody_runs_is_cancelled_at_once(reach: Callable[[Site], None], reply: ModelReply) -> None:
    """And everything below it ends, too. Keeps: terminal-is-final, never-stuck."""
    site = Site(main=main_agent(reply), helper=main_agent(asks_person()))  # helpers would wait for ever
    reach(site)

    assert site.outsider().cancel("t", "enough").outcome == "cancelled"

    assert (site.row().status, site.events()[-1]) == (Status.TERMINAL, TaskCancelled("enough"))
    site.seconds += 1_000.0
    site.machine("w2").rest()
    assert {row.status for row in site.rows()} == {Status.TERMINAL}
    assert site.events()[-1] == TaskCancelled("enough")
    assert site.outsider().cancel("t", "enough").outcome == "ended"


@pytest.mark.holds("status/any-can-be-cancelled")
def test_a_running_task_is_cancelled_by_its_owner_who_hears_of_it_with_the_next_renewal() -> None:
    started, noticed = threading.Event(), threading.Event()

    def work(ctx: ToolContext) -> None:
        started.set()
        if ctx.wait(PATIENCE_SECONDS):
            noticed.set()
            raise StepCancelled

    beats = Beats()
    site = Site(main=engine(Model((asks("work"), says())), Effect("work", [], after=work)))
    machine = site.machine(world=ThreadWorld(), heartbeat_interval=20.0, heartbeat_wait=beats)
    site.create()
    ticking = threading.Thread(target=machine.loop.tick, daemon=True)
    ticking.start()
    wait_until(started, "the tool's start")

    assert site.outsider().cancel("t", "enough").outcome == "stored"
    assert site.row().status is Status.RUNNING
    beats.beat()

    wait_until(noticed, "the cancellation of the step")
    ticking.join(PATIENCE_SECONDS)
    assert not ticking.is_alive()
    beats.end()
    assert (site.row().status, site.events()[-1]) == (Status.TERMINAL, TaskCancelled("enough"))
    assert site.row().epoch == 1


def test_a_cancelled_child_tells_its_parent_which_goes_on() -> None:
    """Keeps: children-once."""
    site = Site(main=main_agent(delegates("asker")), asker=main_agent(asks_person()))
    site.create()
    site.machine().rest()
    (child,) = [row.id for row in site.rows() if row.parent == "t"]
    assert site.row(child).status is Status.SUSPENDED

    assert site.outsider().cancel(child, "enough").outcome == "cancelled"
    site.machine("w2").rest()

    assert site.woken() == [SubtaskCompleted(child, "cancelled", "enough")]
    assert site.row().status is Status.TERMINAL
