"""Orders to end and to stop in the middle of a step: what is recorded of it, and what happens to one that goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from noeta.core import texts
from noeta.core.errors import BadInput
from noeta.core.events import (
    MessageTaken,
    ModelCalled,
    ModelReplied,
    StepAttemptAbandoned,
    TaskCancelled,
    TaskSuspended,
    TaskWoken,
    ToolCall,
    ToolFinished,
    ToolStarted,
)
from noeta.core.model import ModelRequest
from noeta.core.store import Commit
from noeta.core.task import Status
from noeta.core.tool import StepCancelled, ToolContext
from noeta.core.wake import NEXT_GOAL, ControlReceived, HumanResponseReceived, SubtaskCompleted
from noeta.runtime.threads import ThreadWorld
from noeta.runtime.worker import ORDER_GRACE_SECONDS
from tests.actors import PATIENCE_SECONDS, Beats, Effect, Model, asks, engine, says, wait_until
from tests.unit.runtime.machines import LEASE, Site, asks_person, calls, delegates, main_agent

BEAT = 20.0


class Working:
    """A site with one step under way in a tool, whose keeper beats when the test says so."""

    def __init__(self, during: Callable[[ToolContext], None], **task: Any) -> None:
        self.started = threading.Event()
        self.beats = Beats()
        self.seconds = 0.0

        def work(ctx: ToolContext) -> None:
            self.started.set()
            during(ctx)

        self.site = Site(
            main=engine(Model((asks("work"), says("done"), says("again"))), Effect("work", [], after=work))
        )
        self.machine = self.site.machine(
            world=ThreadWorld(), heartbeat_interval=BEAT, heartbeat_wait=self.beats, clock=lambda: self.seconds
        )
        self.site.create(**task)
        self._ticking = threading.Thread(target=self.machine.loop.tick, daemon=True)
        self._ticking.start()
        wait_until(self.started, "the tool's start")

    def end(self) -> None:
        self._ticking.join(PATIENCE_SECONDS)
        assert not self._ticking.is_alive(), "the step did not end"
        self.beats.end()


def stop_at_once(ctx: ToolContext) -> None:
    if ctx.wait(PATIENCE_SECONDS):
        raise StepCancelled


def test_a_close_stops_the_turn_and_a_message_goes_on_with_it() -> None:
    scene = Working(stop_at_once, interactive=True)

    assert scene.site.outsider().close("t", "lunch").outcome == "stored"
    scene.beats.beat()
    scene.end()

    tail = scene.site.events()[-4:]
    assert tail == [
        ToolStarted("3-0", 1),
        MessageTaken(1, ControlReceived("close", "lunch")),
        StepAttemptAbandoned(4, "close"),
        TaskSuspended(HumanResponseReceived(NEXT_GOAL), reason="closed: lunch"),
    ]
    scene.site.outsider().say("t", "go on", message_id="1")
    scene.site.machine("w2").rest()
    assert scene.site.events()[-1] == TaskSuspended(HumanResponseReceived(NEXT_GOAL), "done")


def test_a_close_ends_a_task_that_nobody_could_speak_to() -> None:
    scene = Working(stop_at_once)

    scene.site.outsider().close("t", "lunch")
    scene.beats.beat()
    scene.end()

    assert scene.site.events()[-1] == TaskCancelled("lunch")


def test_what_a_tool_returned_before_it_heard_is_recorded() -> None:
    """Keeps: effect-at-most-once."""
    heard = threading.Event()

    def finish(ctx: ToolContext) -> None:
        assert ctx.wait(PATIENCE_SECONDS)
        heard.set()

    scene = Working(finish)
    scene.site.outsider().cancel("t", "enough")
    scene.beats.beat()
    wait_until(heard, "the order")
    scene.end()

    result, order, ending = scene.site.events()[-3:]
    assert isinstance(result, ToolFinished)
    assert (result.source, order, ending) == (
        "ran",
        MessageTaken(1, ControlReceived("cancel", "enough")),
        TaskCancelled("enough"),
    )


def test_a_step_that_goes_on_is_cut_off_and_its_task_ends_without_it() -> None:
    """https://github.com/SamSaffron/term-llm/pull/918 Keeps: terminal-is-final."""
    go_on, gone = threading.Event(), threading.Event()

    def ignore(ctx: ToolContext) -> None:
        wait_until(go_on, "the end of the deaf step")
        gone.set()

    scene = Working(ignore)
    scene.site.outsider().cancel("t", "enough")
    scene.beats.beat()
    scene.seconds += ORDER_GRACE_SECONDS
    scene.end()

    assert scene.site.events()[-2:] == [MessageTaken(1, ControlReceived("cancel", "enough")), TaskCancelled("enough")]
    written = len(scene.site.events())
    go_on.set()
    wait_until(gone, "the deaf step's end")
    assert scene.site.row().status is Status.TERMINAL
    assert len(scene.site.events()) == written
    assert "step_failed_retryable" not in scene.machine.signals.kinds()


def test_an_interrupted_call_is_not_looked_up_in_a_task_that_is_to_end() -> None:
    """Nothing is started for a task that is cancelled. Keeps: effect-at-most-once."""
    site = Site(main=engine(Model((asks("work"), says())), Effect("work", [], retry_safe=True)))
    site.create()
    dispatcher = site.outsider()
    lease = dispatcher.lease(worker_id="dies", lease_seconds=LEASE)
    assert lease is not None
    called = (ModelCalled("h", 1), ModelReplied("", (ToolCall("3-0", "work", {}),), "tool_use"), ToolStarted("3-0", 1))
    lease.held.append(1, Commit(called))
    assert dispatcher.close("t").outcome == "stored"
    site.seconds += LEASE
    site.machine("w2").rest()

    assert site.events()[-1] == TaskCancelled("")
    assert not any(isinstance(event, ToolStarted) and event.start > 1 for event in site.events())


def test_a_closed_turn_cancels_the_children_it_waits_for() -> None:
    """Keeps: children-once, never-stuck."""
    site = Site(main=main_agent(delegates("deaf")), deaf=main_agent(delegates("deaf"), delegates("deaf")))
    site.create(interactive=True)
    machine = site.machine()
    assert machine.loop.tick()
    (child,) = [row.id for row in site.rows() if row.parent == "t"]

    site.outsider().close("t")
    machine.rest()

    assert site.row().status is Status.SUSPENDED
    assert site.events(child)[-1] == TaskCancelled(texts.WAIT_GIVEN_UP)
    site.outsider().say("t", "go on", message_id="1")
    machine.rest()
    assert [row.id for row in site.rows() if row.status is not Status.TERMINAL] == ["t"]


def test_a_consumed_wake_is_compared_with_the_log() -> None:
    """The facade's last step of the delivery: ``TaskWoken`` took the wake already. Keeps: wake-once."""
    site = Site(main=main_agent())
    site.create(interactive=True)
    site.machine().rest()
    dispatcher = site.outsider()
    dispatcher.say("t", "hello", message_id="1")
    lease = dispatcher.lease(worker_id="host", lease_seconds=LEASE)
    assert lease is not None
    wake = lease.wake_event
    assert wake == HumanResponseReceived(NEXT_GOAL, "hello")
    with pytest.raises(BadInput, match="consumed_wake_event"):
        dispatcher.release(lease, consumed_wake_event=wake)
    lease.held.append(lease.claim.last_seq, Commit((TaskWoken((1,), wake),), inbox_seen=1))

    assert lease.wake_event is None
    with pytest.raises(BadInput, match=r"took .*other"):
        dispatcher.release(lease, consumed_wake_event=HumanResponseReceived(NEXT_GOAL, "other"))
    assert dispatcher.release(lease, consumed_wake_event=wake) is Status.PENDING


@pytest.mark.parametrize("runs", [False, True])
def test_what_was_said_before_a_close_is_of_its_turn_and_what_was_said_after_it_begins_the_next(runs: bool) -> None:
    """Whether the owner heard of the close before it looked, or in the same look. Keeps: taken-once, never-stuck."""
    site = Site(main=main_agent(says("first"), says("second")))
    site.create(interactive=True)
    machine = site.machine()

    def speak(request: ModelRequest | None = None) -> None:
        if request is not None and len(request.said) > 1:
            return  # only during the first request
        outsider = site.outsider()
        outsider.say("t", "before", message_id="1")
        outsider.close("t")
        outsider.say("t", "after", message_id="2")

    if runs:
        site.agents["main"].provider.before = speak  # type: ignore[attr-defined]
    else:
        machine.rest()
        speak()
    machine.rest()

    texts_said = [said.text for said in site.agents["main"].provider.requests[-1].said if hasattr(said, "text")]  # type: ignore[attr-defined]
    closed = [event.reason for event in site.events() if isinstance(event, TaskSuspended) and event.reason]
    woken = [event.text for event in site.woken() if isinstance(event, HumanResponseReceived)]
    assert (closed, woken[-1]) == (["closed"], "after")
    assert "before" in texts_said and "after" in texts_said
    assert site.row().status is Status.SUSPENDED
    assert not site.store.read("t").unread


def test_a_sub_agent_is_not_reopened_by_the_loops_handle() -> None:
    """Its parent waits for its result; nobody would ever speak to it. Keeps: children-once, never-stuck."""
    site = Site(main=main_agent(delegates("asker")), asker=main_agent(asks_person()))
    site.create(interactive=True)
    machine = site.machine(next_goal_handle=NEXT_GOAL)
    machine.rest()
    (child,) = [row.id for row in site.rows() if row.parent == "t"]

    site.outsider().close(child, "enough")
    machine.rest()

    assert site.events(child)[-1] == TaskCancelled("enough")
    assert site.woken()[-1] == SubtaskCompleted(child, "cancelled", "enough")


def test_a_result_stands_behind_its_call_whatever_was_said_meanwhile() -> None:
    """Providers refuse it anywhere else, and the conversation would never recover. Keeps: same-request."""
    agent = main_agent(asks_person())
    site = Site(main=agent)
    site.create(interactive=True)
    machine = site.machine()
    machine.rest()
    outsider = site.outsider()
    outsider.say("t", "by the way", message_id="1")
    outsider.close("t")
    machine.rest()
    outsider.say("t", "go on", message_id="2")
    machine.rest()

    kinds = [type(said).__name__ for said in agent.provider.requests[-1].said]  # type: ignore[attr-defined]
    assert kinds == ["UserSaid", "ModelSaid", "ToolAnswered", "UserSaid", "UserSaid"]


def test_an_answer_goes_before_the_end_of_the_time_for_it() -> None:
    """The limit was noted while nobody looked, and then the answer came. Keeps: wake-once."""
    site = Site(main=main_agent(calls(("AskUser", {"question": "which?", "timeout_seconds": 5}))))
    site.create()
    machine = site.machine()
    machine.rest()
    wait = site.row().wake_on
    assert isinstance(wait, HumanResponseReceived)
    site.seconds += 10
    assert site.outsider().fire_due_timers() == ("t",)

    assert site.outsider().say("t", "this one", message_id="1", handle=wait.handle).outcome == "stored"
    machine.rest()

    assert site.results() == ["this one"]


def test_more_children_than_a_commit_holds_are_given_up_all_the_same() -> None:
    """Keeps: children-once."""
    crowd = calls(*[("AgentGroup", {"members": [{"agent": "deaf", "prompt": "wait"}] * 100})] * 11)
    site = Site(main=main_agent(crowd), deaf=main_agent(asks_person()))
    site.create(interactive=True)
    machine = site.machine()
    assert machine.loop.tick()

    site.outsider().close("t")
    machine.loop.tick()

    unread = [site.store.read(row.id).unread for row in site.store.tasks(limit=2_000) if row.parent == "t"]
    assert site.row().status is Status.SUSPENDED
    assert (len(unread), all(unread)) == (1_100, True)


@pytest.mark.parametrize("key", ["timer:t:6", "cancel:parent"])
def test_the_stores_own_keys_are_nobody_elses(key: str) -> None:
    """Keeps: timers-once, children-once."""
    site = Site(main=main_agent())
    site.create()

    with pytest.raises(BadInput, match=r"key: .* are the store's"):
        site.outsider().post("t", HumanResponseReceived(text="x"), key)


def test_a_tool_that_stops_although_nobody_asked_it_to_has_failed() -> None:
    def stop(ctx: ToolContext) -> None:
        raise StepCancelled("for no reason")

    site = Site(main=engine(Model((asks("work"), says("done"))), Effect("work", [], after=stop)))
    site.create()
    site.machine().rest()

    assert site.results() == ["StepCancelled: for no reason"]
    assert site.row().status is Status.TERMINAL
