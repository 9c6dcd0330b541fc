"""What a worker leaves half done, the next one finishes: over every store, with deaths and faults where they hurt.

The rows of "When a worker loses its claim" and the order of recovery, as the source document states them.
"""

from __future__ import annotations

from collections import Counter

import pytest

from noeta.core import texts
from noeta.core.events import (
    Event,
    ModelCalled,
    StepAttemptAbandoned,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolStarted,
    TurnFailed,
)
from noeta.core.model import ProviderError, ToolAnswered
from noeta.core.task import Status
from noeta.core.tool import ToolResult
from noeta.core.wake import NEXT_GOAL, HumanResponseReceived
from noeta.testing.faults import FaultyStore
from noeta.testing.store_contract import Stage
from tests.actors import (
    BrokenTools,
    Deaths,
    Effect,
    LookedUp,
    Model,
    PointWorld,
    asks,
    die,
    drive,
    engine,
    says,
)
from tests.contract.recovering import Journal, calls_pair, kinds, last, take

# -- durable before it has an effect -----------------------------------------------------------------------


@pytest.mark.holds("model/recorded-first")
def test_a_request_is_in_the_log_before_it_leaves(stage: Stage) -> None:
    """Keeps: calls-pair, same-request."""
    seen: list[Event] = []
    model = Model((says(),), before=lambda request: seen.append(stage.events()[-1]))

    assert drive(stage.store, stage.running(), engine(model)) == "drained"

    (called,) = seen
    assert isinstance(called, ModelCalled)
    assert called.request_hash == model.requests[0].hash()


@pytest.mark.holds("tool/recorded-first")
def test_a_start_is_in_the_log_before_the_tool_runs(stage: Stage) -> None:
    """Keeps: effect-at-most-once."""
    seen: list[Event] = []
    tool = Effect("pay", [], after=lambda ctx: seen.append(stage.events()[-1]))

    drive(stage.store, stage.running(), engine(Model((asks("pay"), says())), tool))

    assert seen == [ToolStarted("3-0", 1)]


def test_what_is_known_together_is_committed_together(stage: Stage) -> None:
    store = FaultyStore(stage.store)
    tools = [Effect(name, []) for name in ("a", "b")]

    drive(store, stage.running(), engine(Model((asks("a", "b"), says())), *tools))

    # ModelCalled | reply, start a | a's result, start b | b's result, ModelCalled | reply, the end
    assert store.calls("append") == 5
    assert kinds(stage) == [
        "TaskCreated",
        "ModelCalled",
        "ModelReplied",
        "ToolStarted",
        "ToolFinished",
        "ToolStarted",
        "ToolFinished",
        "ModelCalled",
        "ModelReplied",
        "TaskCompleted",
    ]


# -- a model call cut short --------------------------------------------------------------------------------


@pytest.mark.holds("model/left-open", "model/called-again", "model/same-bytes", "model/no-partial-text")
def test_a_model_call_cut_short_is_made_again_with_the_same_bytes(stage: Stage) -> None:
    """Also if somebody has said something meanwhile: that is for the call after it. Keeps: same-request."""
    first, second = Model((says(),), before=die), Model((says(), says("and that")))
    claim = stage.running()
    assert drive(stage.store, claim, engine(first)) is None
    assert kinds(stage) == ["TaskCreated", "ModelCalled"]
    stage.store.post(claim.task_id, HumanResponseReceived(text="meanwhile"), "m")

    assert drive(stage.store, take(stage, "w2"), engine(second)) == "drained"

    assert first.requests[0].canonical() == second.requests[0].canonical()
    called = [event for event in stage.events() if isinstance(event, ModelCalled)]
    assert [call.attempt for call in called] == [1, 2, 1]
    assert called[0].request_hash == called[1].request_hash != called[2].request_hash
    assert StepAttemptAbandoned(2, "auto_redrive") in stage.events()


@pytest.mark.holds("model/provider-retries-apart", "error/provider-counted-once")
def test_errors_of_the_provider_within_one_call_are_no_attempts_of_it(stage: Stage) -> None:
    """More of them than calls may be cut short. Keeps: bounded."""
    errors = [ProviderError("overloaded")] * (texts.MAX_MODEL_ATTEMPTS + 1)

    def refuse(request: object) -> None:
        if errors:
            raise errors.pop()

    outcome = drive(
        stage.store,
        stage.running(),
        engine(Model((says("bye"),), before=refuse), attempts=texts.MAX_MODEL_ATTEMPTS + 2),
    )

    assert (outcome, errors) == ("drained", [])
    assert kinds(stage) == ["TaskCreated", "ModelCalled", "ModelReplied", "TaskCompleted"]


def test_a_changed_agent_says_why_its_request_differs(stage: Stage) -> None:
    """Keeps: same-request."""
    assert drive(stage.store, stage.running(), engine(Model((says(),), before=die))) is None

    drive(stage.store, take(stage, "w2"), engine(Model((says(),)), Effect("new", [])))

    first, second = [event for event in stage.events() if isinstance(event, ModelCalled)]
    assert first.request_hash != second.request_hash
    assert first.engine_hash != second.engine_hash


@pytest.mark.holds("model/three-attempts")
@pytest.mark.parametrize("interactive", [False, True])
def test_a_model_call_that_kills_its_worker_three_times_fails_the_turn(stage: Stage, interactive: bool) -> None:
    """Keeps: bounded. https://github.com/sidekiq/sidekiq/issues/4633"""
    stage.create(interactive=interactive)
    deadly = engine(Model((says(),), before=die))
    for n in range(3):
        assert drive(stage.store, take(stage, f"w{n}"), deadly) is None

    outcome = drive(stage.store, take(stage, "w4"), deadly)

    assert kinds(stage).count("ModelCalled") == 3
    assert last(stage, TurnFailed) == TurnFailed("llm_error", "the model call kept being interrupted")
    if interactive:
        assert (outcome, stage.row().wake_on) == ("woken", HumanResponseReceived(NEXT_GOAL))
    else:
        assert outcome == "drained"
        assert stage.events()[-1] == TaskFailed("llm_error", "the model call kept being interrupted")


# -- a tool call cut short ---------------------------------------------------------------------------------


@pytest.mark.holds("tool/left-open", "tool/unknown", "tool/model-looks")
def test_a_plain_call_cut_short_is_never_run_again_and_the_model_is_told(stage: Stage) -> None:
    """Keeps: effect-at-most-once."""
    journal: Journal = []
    model = Model((asks("pay"), says("I looked")))
    assert drive(stage.store, stage.running(), engine(model, Effect("pay", journal, after=die))) is None
    assert kinds(stage)[-2:] == ["ModelReplied", "ToolStarted"]

    assert drive(stage.store, take(stage, "w2"), engine(model, Effect("pay", journal))) == "drained"

    assert journal == [("t:3-0", 1)]
    assert model.requests[-1].said[-1] == ToolAnswered("3-0", texts.OUTCOME_UNKNOWN, is_error=True)
    assert last(stage, ToolFinished) == ToolFinished(
        "3-0",
        "Interrupted before its result was recorded, so its outcome is unknown — it may have fully, partly, or not "
        "applied. Check its effect before running it again.",
        is_error=True,
        source="unknown",
    )


@pytest.mark.holds("tool/decided-in-order", "tool/looks-up", "tool/same-key", "tool/key-for-outside")
def test_a_call_whose_tool_looks_the_outcome_up_is_not_run_again(stage: Stage) -> None:
    """The look-up comes before all else, with the key the run had. Keeps: effect-at-most-once."""
    journal: Journal = []
    asked: list[tuple[str, int]] = []
    model = Model((asks("pay"), says()))
    assert drive(stage.store, stage.running(), engine(model, LookedUp("pay", journal, True, die))) is None

    def find(ctx: object) -> ToolResult:
        asked.append((ctx.idempotency_key, ctx.start))  # type: ignore[attr-defined]
        return ToolResult("paid once")

    drive(stage.store, take(stage, "w2"), engine(model, LookedUp("pay", journal, True, find=find)))

    assert journal == asked == [("t:3-0", 1)]
    assert last(stage, ToolFinished) == ToolFinished("3-0", "paid once", source="recovered")


@pytest.mark.holds("tool/decided-in-order", "tool/same-key")
@pytest.mark.parametrize("broken", [False, True])
def test_a_look_up_that_cannot_tell_leaves_it_to_the_next_rule(stage: Stage, broken: bool) -> None:
    journal: Journal = []
    model = Model((asks("pay"), says()))
    assert drive(stage.store, stage.running(), engine(model, LookedUp("pay", journal, after=die))) is None

    def find(ctx: object) -> None:
        if broken:
            raise RuntimeError("the other side is down")

    drive(stage.store, take(stage, "w2"), engine(model, LookedUp("pay", journal, find=find)))

    finished = last(stage, ToolFinished)
    assert isinstance(finished, ToolFinished) and finished.source == "unknown"
    assert len(journal) == 1


@pytest.mark.holds("tool/retry-safe", "tool/key-for-outside")
def test_a_retry_safe_call_is_started_again(stage: Stage) -> None:
    journal: Journal = []
    model = Model((asks("read"), says()))
    assert drive(stage.store, stage.running(), engine(model, Effect("read", journal, True, die))) is None

    drive(stage.store, take(stage, "w2"), engine(model, Effect("read", journal, True)))

    assert journal == [("t:3-0", 1), ("t:3-0", 2)]
    assert last(stage, ToolFinished) == ToolFinished("3-0", "read ran as start 2")


@pytest.mark.holds("tool/three-starts")
def test_a_retry_safe_call_that_kills_its_worker_is_started_three_times(stage: Stage) -> None:
    """Keeps: bounded."""
    journal: Journal = []
    model = Model((asks("read"), says()))
    deadly = engine(model, Effect("read", journal, True, die))
    stage.create()
    for n in range(3):
        assert drive(stage.store, take(stage, f"w{n}"), deadly) is None

    assert drive(stage.store, take(stage, "w4"), deadly) == "drained"

    assert [start for _, start in journal] == [1, 2, 3]
    finished = last(stage, ToolFinished)
    assert isinstance(finished, ToolFinished) and finished.output == texts.OUTCOME_UNKNOWN


def test_only_the_interrupted_call_of_a_reply_is_in_doubt(stage: Stage) -> None:
    """Finished calls are not run again; one that never began is no unknown outcome."""
    journal: Journal = []
    model = Model((asks("a", "b", "c"), says()))
    before = [Effect("a", journal), Effect("b", journal, after=die), Effect("c", journal)]
    assert drive(stage.store, stage.running(), engine(model, *before)) is None

    drive(stage.store, take(stage, "w2"), engine(model, *[Effect(name, journal) for name in "abc"]))

    assert journal == [("t:3-0", 1), ("t:3-1", 1), ("t:3-2", 1)]
    sources = [event.source for event in stage.events() if isinstance(event, ToolFinished)]
    assert sources == ["ran", "unknown", "ran"]


def test_a_tool_that_is_gone_after_a_takeover_is_an_unknown_outcome(stage: Stage) -> None:
    journal: Journal = []
    model = Model((asks("pay"), says()))
    assert drive(stage.store, stage.running(), engine(model, Effect("pay", journal, True, die))) is None

    assert drive(stage.store, take(stage, "w2"), engine(model)) == "drained"

    finished = last(stage, ToolFinished)
    assert isinstance(finished, ToolFinished) and finished.source == "unknown"


def test_a_seal_says_what_was_given_up(stage: Stage) -> None:
    sealed: list[tuple[str, int]] = []
    model = Model((asks("pay"), says()))
    assert drive(stage.store, stage.running(), engine(model, Effect("pay", [], after=die))) is None

    drive(
        stage.store,
        take(stage, "w2"),
        engine(model, Effect("pay", [])),
        on_seal=lambda reason, seq: sealed.append((reason, seq)),
    )

    assert sealed == [("auto_redrive", 4)]


# -- bugs --------------------------------------------------------------------------------------------------


def test_the_second_bug_of_the_runner_in_a_row_ends_the_task(stage: Stage) -> None:
    """Keeps: bounded."""
    broken = engine(Model((says(),)))
    object.__setattr__(broken, "tools", BrokenTools())
    stage.create(interactive=True)

    assert drive(stage.store, stage.claim(), broken) == "woken"
    assert last(stage, TurnFailed) == TurnFailed("internal_error", "RuntimeError: planted bug")
    stage.store.wake("t", HumanResponseReceived(text="again"))
    assert drive(stage.store, stage.claim(), broken) == "drained"

    assert stage.events()[-1] == TaskFailed("internal_error", "RuntimeError: planted bug")
    assert stage.row().fail_attempts == 0


def test_a_nul_in_an_error_does_not_stop_the_error_from_being_recorded(stage: Stage) -> None:
    """https://github.com/open-metadata/OpenMetadata/issues/31120"""

    def explode(ctx: object) -> None:
        raise ValueError("bad \x00 byte \ud800")

    model = Model((asks("read"), says()))
    drive(stage.store, stage.running(), engine(model, Effect("read", [], after=explode)))

    assert last(stage, ToolFinished) == ToolFinished("3-0", "ValueError: bad \x00 byte \\ud800", is_error=True)


# -- every crash point -------------------------------------------------------------------------------------


@pytest.mark.holds("recovery/is-folding", "recovery/two-things", "tool/at-most-once", "outcome/crash-is-no-error")
@pytest.mark.parametrize("retry_safe", [False, True])
def test_a_death_at_any_point_is_recovered_from(stage: Stage, retry_safe: bool) -> None:
    """Killed at the n-th point, for every n, until a run completes. Keeps: effect-at-most-once, calls-pair."""
    n = 0
    while True:
        n += 1
        id = f"t{n}"
        journal: Journal = []
        agent = engine(Model((asks("a", "b"), says("bye"))), *[Effect(name, journal, retry_safe) for name in "ab"])
        deaths = Deaths(at=n)
        world = PointWorld(lambda name, facts, deaths=deaths: deaths(name))  # type: ignore[misc]
        first = drive(stage.store, stage.running(id), agent, world=world)
        if first is not None:
            break
        if stage.row(id).status is not Status.TERMINAL:
            assert drive(stage.store, take(stage, "w2"), agent) == "drained"
        events = stage.events(id)
        assert events[-1] == TaskCompleted("bye"), n
        starts = Counter(key for key, _ in journal)
        assert max(starts.values(), default=0) <= (2 if retry_safe else 1), (n, journal)
        calls_pair(events)
    assert n > 15, "the run passed next to no points"


@pytest.mark.holds("tool/at-most-once")
def test_a_death_while_recovering_is_recovered_from(stage: Stage) -> None:
    """Killed again at the n-th point of the recovery, for every n. Keeps: effect-at-most-once."""
    n = 0
    while True:
        n += 1
        id = f"t{n}"
        journal: Journal = []
        model = Model((asks("a"), says("bye")))
        assert drive(stage.store, stage.running(id), engine(model, Effect("a", journal, after=die))) is None
        agent = engine(model, Effect("a", journal))
        deaths = Deaths(at=n)
        world = PointWorld(lambda name, facts, deaths=deaths: deaths(name))  # type: ignore[misc]
        if drive(stage.store, take(stage, "w2"), agent, world=world) is not None:
            break
        if stage.row(id).status is not Status.TERMINAL:
            assert drive(stage.store, take(stage, "w3"), agent) == "drained"
        assert stage.events(id)[-1] == TaskCompleted("bye"), n
        assert journal == [(f"{id}:3-0", 1)]
    assert n > 5


@pytest.mark.holds("guarantee/exactly-once", "wake/survives-a-death", "wake/not-written-twice")
def test_a_death_at_any_point_around_a_wake_wakes_once(stage: Stage) -> None:
    """Keeps: wake-once."""
    n = 0
    while True:
        n += 1
        id = f"t{n}"
        stage.create(id, interactive=True)
        agent = engine(Model((says("hello"), says("again"))))
        assert drive(stage.store, stage.claim(), agent) == "woken"
        stage.store.wake(id, HumanResponseReceived(text="hi"))
        deaths = Deaths(at=n)
        world = PointWorld(lambda name, facts, deaths=deaths: deaths(name))  # type: ignore[misc]
        if drive(stage.store, stage.claim(), agent, world=world) is not None:
            break
        if stage.row(id).status is not Status.SUSPENDED:
            assert drive(stage.store, take(stage, "w2"), agent) == "woken"
        events = stage.events(id)
        assert sum(isinstance(event, TaskWoken) for event in events) == 1, n
        assert events[-1] == TaskSuspended(HumanResponseReceived(NEXT_GOAL), "again")
        assert stage.unread(id) == ()
    assert n > 5


def _never(seconds: float) -> bool:
    return True
