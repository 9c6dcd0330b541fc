"""A task that was taken over in the middle of a call rests until a person says how it goes on, if its host wants it so;
it goes on by itself only if that starts nothing twice that may not be, and the gates allow it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from noeta.core import texts
from noeta.core.events import (
    ApprovalAsked,
    MessageTaken,
    ModelCalled,
    NoticeGiven,
    StepAttemptAbandoned,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolStarted,
)
from noeta.core.fold import fold
from noeta.core.gates import Allow, Ask, Decision, Deny
from noeta.core.model import ModelRequest, ToolAnswered, UserSaid
from noeta.core.runner import Held, Runner
from noeta.core.task import Status
from noeta.core.tool import MAX_ATTEMPTS, OnUnknown, Tool, ToolResult
from noeta.core.wake import NEXT_GOAL, ControlReceived, HumanResponseReceived
from noeta.core.world import ProcessDied
from noeta.plugins import waiting_tools
from noeta.runtime.leased import run_leased_task
from noeta.runtime.process import PointStore
from noeta.runtime.service import ReleasingLoop
from noeta.runtime.worker import WorkerLoop
from noeta.testing.faults import Fault, Kind
from tests.actors import Deaths, Model, PointWorld, asks, die, says
from tests.unit.runtime.gating import (
    APPROVAL,
    POINTS_MAX,
    POINTS_MIN,
    Finds,
    Mortal,
    Notes,
    Says,
    agent,
    asking,
    denying,
    kinds,
    lives,
    of,
    told,
)
from tests.unit.runtime.machines import LEASE, Site, calls, delegates, main_agent

PARKED = ["StepAttemptAbandoned", "NoticeGiven", "TaskSuspended"]
"""What one commit of a park holds."""

HERE = HumanResponseReceived(NEXT_GOAL)


def interrupted(
    tool: str = "pay",
    *,
    gates: tuple[Any, ...] = (),
    then: tuple[Any, ...] | None = None,
    reply: Any = None,
    tools: tuple[Tool, ...] = (),
    now: Tool | None = None,
    retry_safe: bool = False,
    interactive: bool = True,
    on_unknown: OnUnknown | None = None,
    model: Model | None = None,
    more: tuple[Any, ...] = (says("and then"),),
) -> tuple[Site, list[Any]]:
    """A task whose worker died in this tool, and whose lease is over; what ran so far.

    ``then``: the gates of the next worker; ``now``: its tool of that name.
    """
    ran: list[Any] = []
    reply = reply or asks(tool)
    deadly = Notes(tool, ran, retry_safe, die)
    site = Site(main=agent(*gates, asks=reply, tools=(*tools, deadly), on_unknown=on_unknown, model=model, more=more))
    site.create(interactive=interactive)
    assert not lives(site.machine("dies"))
    site.seconds += LEASE
    sound = now or Notes(tool, ran, retry_safe)
    after = gates if then is None else then
    site.agents["main"] = agent(
        *after, asks=reply, tools=(*tools, sound), on_unknown=on_unknown, model=model, more=more
    )
    return site, ran


def is_parked(site: Site, handle: str = NEXT_GOAL) -> bool:
    row = site.row()
    return (row.status, row.wake_on) == (Status.SUSPENDED, HumanResponseReceived(handle)) and (
        site.events()[-1] == TaskSuspended(HumanResponseReceived(handle), reason=texts.ATTEMPT_PARKED)
    )


def say(site: Site, text: str = "it was paid, go on", id: str = "1") -> None:
    site.outsider().say("t", text, message_id=id)


# -- the park ----------------------------------------------------------------------------------------------


@pytest.mark.holds("outcome/parked", "outcome/crash-recovery-moments", "outcome/parks")
def test_an_unknown_outcome_rests_until_a_person_says_how_to_go_on() -> None:
    """Sealed, told to people, and free of any worker. Keeps: effect-at-most-once, waiting-is-free."""
    site, ran = interrupted()
    machine = site.machine("w2")

    assert machine.loop.tick()

    assert is_parked(site)
    assert site.events()[-3:] == [
        StepAttemptAbandoned(4, texts.ATTEMPT_PARKED),
        NoticeGiven(texts.PARKED_NOTICE.format(calls="pay (3-0)")),
        TaskSuspended(HERE, reason=texts.ATTEMPT_PARKED),
    ]
    assert [start for _, start, _ in ran] == [1]
    assert (site.row().worker, site.row().lease_until) == (None, None)
    (parked,) = [event for event in machine.signals.events if event.kind != "stale_requeued"]
    assert (parked.kind, parked.task_id) == ("attempt_parked", "t")
    assert parked.detail == {"reason": texts.ATTEMPT_PARKED, "abandoned_from_seq": 4}
    assert not machine.loop.tick(), "nobody drives it until somebody speaks"


@pytest.mark.holds("outcome/parked")
def test_the_outcome_of_a_park_is_stopped() -> None:
    site, _ = interrupted()
    machine = site.machine("w2")
    lease = machine.dispatcher.lease(worker_id="w2", lease_seconds=LEASE)
    assert lease is not None

    assert run_leased_task(machine, lease) == "stopped"


@pytest.mark.holds("outcome/parked")
def test_typing_resumes_and_the_model_is_told_once_that_nobody_knows() -> None:
    """Keeps: effect-at-most-once, wake-once."""
    requests: list[ModelRequest] = []
    model = Model((asks("pay"), says("done")), requests.append)
    site, ran = interrupted(model=model)
    site.machine("w2").rest()
    say(site)

    site.machine("w3").rest()

    assert len(ran) == 1
    assert kinds(site)[-4:] == ["TaskWoken", "ModelCalled", "ModelReplied", "TaskSuspended"]
    assert site.events()[-1] == TaskSuspended(HERE, "done")
    assert requests[-1].said[-2:] == (
        ToolAnswered("3-0", texts.OUTCOME_UNKNOWN, is_error=True),
        UserSaid("it was paid, go on"),
    )
    assert told(site) == [ToolAnswered("3-0", texts.OUTCOME_UNKNOWN, is_error=True)]


def test_a_one_shot_task_is_resumed_by_typing_too() -> None:
    site, _ = interrupted(interactive=False)
    site.machine("w2").rest()
    assert is_parked(site)
    say(site)

    site.machine("w3").rest()

    assert site.events()[-1] == TaskCompleted("done")


def test_a_host_names_the_handle_on_which_it_rests() -> None:
    """Then a plain message is kept for the turn, and begins none."""
    site, _ = interrupted()
    site.machine("w2", next_goal_handle="desk").rest()
    assert is_parked(site, "desk")
    say(site)
    site.machine("w3", next_goal_handle="desk").rest()
    assert is_parked(site, "desk")

    site.outsider().say("t", "go on", message_id="1", handle="desk")
    site.machine("w4", next_goal_handle="desk").rest()

    assert site.woken() == [HumanResponseReceived("desk", "go on")]
    assert of(MessageTaken, site) == [MessageTaken(1, HumanResponseReceived(NEXT_GOAL, "it was paid, go on"))]


def test_what_was_said_before_the_notice_is_no_word_about_it() -> None:
    """Whoever typed did not know of the interruption. The model hears it in the turn that the next word begins."""
    requests: list[ModelRequest] = []
    site, _ = interrupted(model=Model((asks("pay"), says("done")), requests.append))
    say(site, "hurry up", "0")

    site.machine("w2").rest()

    assert is_parked(site)
    assert of(MessageTaken, site) == [MessageTaken(1, HumanResponseReceived(NEXT_GOAL, "hurry up"))]
    say(site)
    site.machine("w3").rest()
    assert [said.text for said in requests[-1].said if isinstance(said, UserSaid)] == [
        "goal of t",
        "hurry up",
        "it was paid, go on",
    ]


@pytest.mark.parametrize("action", ["cancel", "close"])
def test_an_order_that_came_goes_before_the_park(action: str) -> None:
    """Keeps: terminal-is-final."""
    site, _ = interrupted()
    (claim,) = site.store.claim("w2", None, LEASE).claims
    world = PointWorld()
    held = Held(world, site.store, claim, world.monotonic() + 1e6)

    class LooksLong(Notes):
        """While it looks, somebody ends the task, and the keeper hears of it."""

        def recover(self, input: Any, ctx: Any) -> ToolResult | None:
            if held.inbox_seq == 0:
                site.store.post("t", ControlReceived(action))
                held.inbox_seq = 1
            return None

    engine = agent(asks=asks("pay"), tools=(LooksLong("pay", []),))

    outcome = Runner(lambda state: engine, world, site.store, held, on_unknown=OnUnknown.PARK).drive()

    assert outcome == ("cancelled" if action == "cancel" else "stopped")
    assert of(NoticeGiven, site) == []
    assert kinds(site)[-1] == ("TaskCancelled" if action == "cancel" else "TaskSuspended")


@pytest.mark.parametrize(("action", "last"), [("cancel", "TaskCancelled"), ("close", "TaskSuspended")])
def test_a_parked_task_can_be_ended(action: str, last: str) -> None:
    site, ran = interrupted()
    site.machine("w2").rest()

    getattr(site.outsider(), action)("t", "enough")
    site.machine("w3").rest()

    assert (kinds(site)[-1], len(ran)) == (last, 1)
    assert not is_parked(site)


def test_a_waiting_call_and_its_child_are_given_up_with_the_turn() -> None:
    """The turn ends, so nobody waits for the child: it is told in the same commit. Keeps: children-once."""
    reply = calls(("Agent", {"agent": "helper", "prompt": "wait"}), ("pay", {}))
    site = Site(helper=main_agent(calls(("WaitForEvent", {"event_kind": "never"}))))
    tools = tuple(waiting_tools().values())
    site.agents["main"] = agent(asks=reply, tools=(*tools, Notes("pay", [], after=die)))
    site.create()
    assert not lives(site.machine("dies"))
    site.seconds += LEASE

    site.machine("w2").rest()

    assert is_parked(site)
    assert kinds(site, "t.3-0.1")[-1] == "TaskCancelled"
    assert {said.call_id: said.output for said in told(site)} == {
        "3-0": texts.TURN_ENDED_FIRST,
        "3-1": texts.OUTCOME_UNKNOWN,
    }


def test_an_open_question_to_a_person_is_given_up_with_the_turn() -> None:
    """An approval that comes after the park starts nothing. Keeps: effect-at-most-once."""
    ran: list[Any] = []
    site, _ = interrupted("write", gates=(asking("pay"),), reply=asks("pay", "write"), tools=(Notes("pay", ran),))
    assert len(of(ApprovalAsked, site)) == 1
    site.machine("w2").rest()
    assert is_parked(site)
    site.outsider().say("t", texts.APPROVE, message_id="answer", handle=APPROVAL)
    say(site)

    site.machine("w3").rest()

    assert ran == []
    assert {said.call_id: said.output for said in told(site)} == {
        "3-0": texts.TURN_ENDED_FIRST,
        "3-1": texts.OUTCOME_UNKNOWN,
    }


# -- re-drive ----------------------------------------------------------------------------------------------


@pytest.mark.holds("outcome/crash-recovery-moments", "outcome/sealed")
def test_a_call_that_is_safe_and_allowed_is_driven_again() -> None:
    site, ran = interrupted("read", retry_safe=True, gates=(Says({}),))
    machine = site.machine("w2")

    machine.rest()

    assert [start for _, start, _ in ran] == [1, 2]
    assert "attempt_abandoned" in machine.signals.kinds() and "attempt_parked" not in machine.signals.kinds()
    assert of(NoticeGiven, site) == []
    assert site.results() == ["read ran as start 2"]


def test_a_call_that_was_looked_up_goes_on() -> None:
    site, ran = interrupted(now=Finds("pay", []))

    site.machine("w2").rest()

    assert site.results() == ["pay had been done"]
    assert (len(ran), site.events()[-1]) == (1, TaskSuspended(HERE, "done"))


@pytest.mark.holds("outcome/sealed", "outcome/parks")
@pytest.mark.parametrize("now", [Ask(), Deny("by now"), Ask("May it?", {"n": 1})])
def test_a_safe_call_that_the_gates_no_longer_allow_is_not_started_again(now: Decision) -> None:
    """Keeps: effect-at-most-once."""
    site, ran = interrupted("read", retry_safe=True, then=(Says({"read": now}),))

    site.machine("w2").rest()

    assert is_parked(site)
    assert len(ran) == 1
    assert of(ApprovalAsked, site) == []


def test_a_gate_that_fails_allows_no_second_start() -> None:
    class Broken:
        def decide(self, call: Any) -> Decision:
            raise RuntimeError("planted")

    site, ran = interrupted("read", retry_safe=True, then=(Broken(),))

    site.machine("w2").rest()

    assert (is_parked(site), len(ran)) == (True, 1)


def test_a_gate_that_rewrites_allows_and_what_the_log_holds_runs() -> None:
    site, ran = interrupted(
        "read", retry_safe=True, gates=(Says({"read": Allow({"n": 1})}),), then=(Says({"read": Allow({"n": 2})}),)
    )

    site.machine("w2").rest()

    assert ran == [("3-0", 1, {"n": 1}), ("3-0", 2, {"n": 1})]


def test_what_a_person_approved_is_not_started_twice_on_one_approval() -> None:
    """The gate wants a person, and the person said yes to one start. Keeps: effect-at-most-once."""
    site, ran = _approved_and_interrupted(retry_safe=True)

    site.machine("w3").rest()

    assert (is_parked(site), len(ran)) == (True, 1)


def test_a_result_that_was_looked_up_needs_no_second_approval() -> None:
    site, ran = _approved_and_interrupted(now=Finds("pay", []))

    site.machine("w3").rest()

    assert (site.results(), len(ran)) == (["pay had been done"], 1)
    assert not is_parked(site)


def _approved_and_interrupted(*, retry_safe: bool = False, now: Tool | None = None) -> tuple[Site, list[Any]]:
    ran: list[Any] = []
    gate = asking("pay")
    site = Site(main=agent(gate, asks=asks("pay"), tools=(Notes("pay", ran, retry_safe, die),)))
    site.create()
    site.machine("w1").rest()
    site.outsider().say("t", texts.APPROVE, message_id="answer", handle=APPROVAL)
    assert not lives(site.machine("w2"))
    site.seconds += LEASE
    site.agents["main"] = agent(gate, asks=asks("pay"), tools=(now or Notes("pay", ran, retry_safe),))
    return site, ran


def test_finished_calls_are_not_run_again() -> None:
    """Keeps: effect-at-most-once."""
    done: list[Any] = []
    site, ran = interrupted("read", retry_safe=True, reply=asks("pay", "read", "pay"), tools=(Notes("pay", done),))

    site.machine("w2").rest()

    assert [call for call, _, _ in done] == ["3-0", "3-2"]
    assert [start for _, start, _ in ran] == [1, 2]


def test_a_finished_call_that_a_person_approved_is_in_nobodys_way() -> None:
    done: list[Any] = []
    ran: list[Any] = []
    gate = asking("pay")
    reply = asks("pay", "read")
    deadly = Notes("read", ran, True, Deaths(1))
    site = Site(main=agent(gate, asks=reply, tools=(Notes("pay", done), deadly)))
    site.create()
    site.outsider().say("t", texts.APPROVE, message_id="answer", handle=APPROVAL)
    assert not lives(site.machine("w1"))
    site.seconds += LEASE

    site.machine("w2").rest()
    site.outsider().say("t", texts.APPROVE, message_id="answer", handle=APPROVAL)
    site.machine("w3").rest()

    assert (len(done), [start for _, start, _ in ran]) == (1, [1, 2])
    assert of(NoticeGiven, site) == []


def test_a_started_call_that_the_gates_would_not_allow_by_now_parks_its_attempt() -> None:
    """Every started call of the reply must be allowed, finished ones too: the host changed its mind about the agent."""
    site, ran = interrupted(
        "read", retry_safe=True, reply=asks("pay", "read"), tools=(Notes("pay", []),), then=(denying("pay"),)
    )

    site.machine("w2").rest()

    assert (is_parked(site), len(ran)) == (True, 1)


def test_a_call_that_was_not_started_does_not_count() -> None:
    site, ran = interrupted(
        "read", retry_safe=True, reply=asks("read", "pay"), tools=(Notes("pay", []),), gates=(denying("pay"),)
    )

    site.machine("w2").rest()

    assert [start for _, start, _ in ran] == [1, 2]
    assert [event.source for event in of(ToolFinished, site)] == ["ran", "denied"]


def test_a_finished_call_whose_tool_is_gone_is_in_nobodys_way() -> None:
    site, ran = interrupted(
        "read", retry_safe=True, reply=asks("pay", "read"), tools=(Notes("pay", []),), gates=(Says({}),)
    )
    site.agents["main"] = agent(Says({}), asks=asks("pay", "read"), tools=(Notes("read", ran, True),))

    site.machine("w2").rest()

    assert [start for _, start, _ in ran] == [1, 2]


def test_an_interrupted_model_call_alone_is_made_again() -> None:
    """Keeps: same-request."""
    deaths = Deaths(2)
    tool = Notes("pay", [])
    model = Model((asks("pay"), says("done")), deaths)
    site = Site(main=agent(denying("nothing"), asks=asks("pay"), tools=(tool,), model=model))
    site.create()
    assert not lives(site.machine("dies"))
    site.seconds += LEASE
    site.agents["main"] = agent(denying("pay"), asks=asks("pay"), tools=(tool,), model=model)

    site.machine("w2").rest()

    assert site.events()[-1] == TaskCompleted("done")
    assert [event.reason for event in of(StepAttemptAbandoned, site)] == ["auto_redrive"]
    assert len({event.request_hash for event in of(ModelCalled, site)[-2:]}) == 1


# -- bounds ------------------------------------------------------------------------------------------------


def test_the_seals_of_a_call_do_not_count_it_from_one_again() -> None:
    """Three starts in all, then a person decides. Keeps: bounded."""
    ran: list[Any] = []
    site = Site(main=agent(asks=asks("read"), tools=(Notes("read", ran, True, die),)))
    site.create()
    for n in range(MAX_ATTEMPTS):
        assert not lives(site.machine(f"w{n}"))
        site.seconds += LEASE

    site.machine("last").rest()

    assert [start for _, start, _ in ran] == [1, 2, 3]
    assert is_parked(site)
    assert [event.reason for event in of(StepAttemptAbandoned, site)] == [
        "auto_redrive",
        "auto_redrive",
        texts.ATTEMPT_PARKED,
    ]


def test_the_seals_of_a_model_call_do_not_count_it_from_one_again() -> None:
    """Keeps: bounded."""
    site = Site(main=agent(asks=says(), tools=(), model=Model((says(),), die)))
    site.create()
    for n in range(texts.MAX_MODEL_ATTEMPTS):
        assert not lives(site.machine(f"w{n}"))
        site.seconds += LEASE

    site.machine("last").rest()

    assert [event.attempt for event in of(ModelCalled, site)] == [1, 2, 3]
    assert site.events()[-1] == TaskFailed(texts.LLM_ERROR, texts.MODEL_CALL_INTERRUPTED)


# -- who parks ---------------------------------------------------------------------------------------------


def test_a_sub_agent_is_told_since_nobody_speaks_to_it() -> None:
    """Its parent waits for its result, and would wait for ever. Keeps: never-stuck."""
    ran: list[Any] = []
    site = Site(
        main=main_agent(delegates("helper")), helper=agent(asks=asks("pay"), tools=(Notes("pay", ran, after=die),))
    )
    site.create()
    assert not lives(site.machine("dies"))
    site.seconds += LEASE
    machine = site.machine("w2")

    machine.rest()

    assert [event.source for event in of(ToolFinished, site, "t.3-0.1")] == ["unknown"]
    assert site.results() == ["Task t.3-0.1 completed:\ndone"]
    assert "attempt_abandoned" in machine.signals.kinds() and "attempt_parked" not in machine.signals.kinds()
    assert len(ran) == 1


@pytest.mark.parametrize("driver", list(OnUnknown))
@pytest.mark.parametrize("agents", [None, *OnUnknown])
def test_the_agent_has_the_last_word_and_the_driver_the_default(driver: OnUnknown, agents: OnUnknown | None) -> None:
    site, ran = interrupted(on_unknown=agents)
    machine = site.machine("w2")
    machine.loop.on_unknown = driver

    machine.rest()

    assert is_parked(site) == ((agents or driver) is OnUnknown.PARK)
    assert len(ran) == 1


def test_the_loop_of_a_host_parks_and_the_worker_command_tells() -> None:
    assert WorkerLoop.on_unknown is OnUnknown.PARK
    assert inspect.signature(run_leased_task).parameters["on_unknown"].default is OnUnknown.PARK
    assert ReleasingLoop.on_unknown is OnUnknown.TELL
    assert agent(asks=says(), tools=()).on_unknown is None


# -- deaths and lost answers -------------------------------------------------------------------------------


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


def test_a_fold_of_a_parked_log_is_what_its_runner_held() -> None:
    site, _ = interrupted()
    (claim,) = site.store.claim("w2", None, LEASE).claims
    world = PointWorld()
    held = Held(world, site.store, claim, world.monotonic() + 1e6)
    engine = site.agents["main"]
    runner = Runner(lambda state: engine, world, site.store, held, on_unknown=OnUnknown.PARK)

    assert runner.drive() == "stopped"

    entries = site.store.read("t").entries
    assert runner._state == fold("t", entries[: runner._state.last_seq])
    assert fold("t", entries).status is Status.SUSPENDED
    assert of(TaskWoken, site) == []
