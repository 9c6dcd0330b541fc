"""Whatever a task waits for, it waits in one way: suspended on a typed condition, holding nothing, woken once."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from noeta.core.events import TaskSuspended
from noeta.core.fold import fold
from noeta.core.model import ModelReply
from noeta.core.runner import Held
from noeta.core.task import Status
from noeta.core.wake import (
    ExternalEvent,
    HumanResponseReceived,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
)
from noeta.runtime.dispatcher import Lease
from noeta.runtime.threads import ThreadWorld
from tests.actors import PATIENCE_SECONDS, Beats
from tests.unit.runtime.machines import (
    Site,
    asks_event,
    asks_person,
    asks_timer,
    delegates,
    fans_out,
    helper_agent,
    main_agent,
)

DELAY = 90.0


@dataclass(frozen=True)
class Kind:
    """One thing to wait for: what the model asks, the condition it becomes, and how it comes."""

    asks: ModelReply
    waits_for: type[WakeCondition]
    comes: Callable[[Site], object]

    def site(self) -> Site:
        return Site(main=main_agent(self.asks), helper=helper_agent())


KINDS = {
    "a person": Kind(
        asks_person(),
        HumanResponseReceived,
        lambda site: site.outsider().wake("t", HumanResponseReceived("question:t:3-0", "yes")),
    ),
    "a timer": Kind(asks_timer(DELAY), TimerFired, lambda site: site.outsider().fire_due_timers()),
    "a subtask": Kind(delegates("helper"), SubtaskCompleted, lambda site: site.machine("w of the child").rest()),
    "a group of subtasks": Kind(
        fans_out("helper", "helper"), SubtaskGroupCompleted, lambda site: site.machine("w of the children").rest()
    ),
    "an outside event": Kind(
        asks_event("deployed"), ExternalEvent, lambda site: site.outsider().wake("t", ExternalEvent("deployed", 7))
    ),
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


@EACH_KIND
@pytest.mark.holds("task/waits", "guarantee/one-status", "wake/recorded")
def test_every_kind_of_wait_is_suspended_on_its_condition_and_woken_once(kind: Kind) -> None:
    """Keeps: wake-once, waiting-is-free."""
    site = kind.site()
    site.create(interactive=True)  # so that it goes on afterwards, and may be woken again
    assert site.machine("w1").loop.tick()

    row = site.row()
    assert (row.status, type(row.wake_on)) == (Status.SUSPENDED, kind.waits_for)
    assert (row.kept, row.worker, row.token, row.lease_until) == (False, None, None, None)
    assert row.wake_on is not None and site.events()[-1] == TaskSuspended(row.wake_on)
    assert fold("t", site.store.read("t").entries).wake_on == row.wake_on
    suspended_seq = row.last_seq

    site.seconds += DELAY
    for _ in range(2):  # told twice, woken once
        kind.comes(site)
    site.machine("w2").rest()
    assert site.store.read("t").unread == ()
    resting = site.row().wake_on
    kind.comes(site)
    site.machine("w3").rest()

    (event,) = site.woken()
    assert type(event) is kind.waits_for
    resumed = [type(event).__name__ for event in site.events()[suspended_seq:]]
    assert resumed == ["TaskWoken", "ToolFinished", "ModelCalled", "ModelReplied", "TaskSuspended"], "one way to resume"
    assert len(site.results()) == 1
    assert (site.row().status, site.row().wake_on) == (Status.SUSPENDED, resting)


@EACH_KIND
@pytest.mark.holds("guarantee/waiting-is-free", "means/nothing-held-open")
def test_a_waiting_task_leaves_no_thread_and_nothing_in_the_workers_memory(kind: Kind) -> None:
    """Keeps: waiting-is-free."""
    site = kind.site()
    before = set(threading.enumerate())
    beats = Beats()
    machine = site.machine("w1", ThreadWorld(), heartbeat_interval=20.0, heartbeat_wait=beats)
    roots = [site.create(f"idle{n}") for n in range(5)]
    for _ in roots:
        site.seconds += 1  # children are due after every root
        assert machine.loop.tick()
    assert {site.row(id).status for id in roots} == {Status.SUSPENDED}

    left = [thread for thread in set(threading.enumerate()) - before if "lease-keeper" not in thread.name]
    for thread in left:
        thread.join(PATIENCE_SECONDS)  # a step that has ended may still be on its way out
    assert [thread.name for thread in left if thread.is_alive()] == []
    gc.collect()
    owned = [thing.claim.task_id for thing in gc.get_objects() if isinstance(thing, Held | Lease)]
    assert [id for id in owned if id.startswith("idle")] == []
    beats.end()
