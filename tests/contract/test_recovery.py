"""What a worker leaves half done, the next one finishes: over every store, with deaths and faults where they hurt.

The rows of "When a worker loses its claim" and the order of recovery, as the source document states them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from noeta.core import texts
from noeta.core.errors import CommitUnknown, Conflict, StoreUnavailable
from noeta.core.events import (
    Entry,
    Event,
    ModelCalled,
    ModelReplied,
    StepAttemptAbandoned,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolStarted,
    TurnFailed,
)
from noeta.core.fold import fold
from noeta.core.runner import ClaimLost, Held, LeaseKeeper, Runner
from noeta.core.store import Claim, Commit
from noeta.core.task import Status
from noeta.core.tool import ToolResult
from noeta.core.wake import NEXT_GOAL, HumanResponseReceived
from noeta.runtime.dispatcher import Dispatcher
from noeta.testing.faults import Fault, FaultyStore, Kind
from noeta.testing.store_contract import Stage
from tests.actors import (
    BrokenTools,
    Deaths,
    Effect,
    LookedUp,
    Model,
    PointWorld,
    SetWorld,
    asks,
    die,
    drive,
    engine,
    says,
)

LEASE = 60.0
Journal = list[tuple[str, int]]


def take(stage: Stage, worker: str) -> Claim:
    """Claim the task, after the lease of whoever held it."""
    stage.clock.advance(LEASE)
    stage.store.requeue_stale()
    stage.clock.advance(LEASE)
    return stage.claim(worker)


def last(stage: Stage, kind: type[Event]) -> Event:
    return next(event for event in reversed(stage.events()) if isinstance(event, kind))


def kinds(stage: Stage) -> list[str]:
    return [type(event).__name__ for event in stage.events()]


# -- durable before it has an effect -----------------------------------------------------------------------


def test_a_request_is_in_the_log_before_it_leaves(stage: Stage) -> None:
    """Keeps: calls-pair, same-request."""
    seen: list[Event] = []
    model = Model((says(),), before=lambda request: seen.append(stage.events()[-1]))

    assert drive(stage.store, stage.running(), engine(model)) == "drained"

    (called,) = seen
    assert isinstance(called, ModelCalled)
    assert called.request_hash == model.requests[0].hash()


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


def test_a_model_call_cut_short_is_made_again_with_the_same_bytes(stage: Stage) -> None:
    """Keeps: same-request."""
    first, second = Model((says(),), before=die), Model((says(),))
    claim = stage.running()
    assert drive(stage.store, claim, engine(first)) is None

    assert drive(stage.store, take(stage, "w2"), engine(second)) == "drained"

    assert first.requests[0].canonical() == second.requests[0].canonical()
    called = [event for event in stage.events() if isinstance(event, ModelCalled)]
    assert [call.attempt for call in called] == [1, 2]
    assert len({call.request_hash for call in called}) == 1
    assert StepAttemptAbandoned(2, "auto_redrive") in stage.events()


def test_a_changed_agent_says_why_its_request_differs(stage: Stage) -> None:
    """Keeps: same-request."""
    assert drive(stage.store, stage.running(), engine(Model((says(),), before=die))) is None

    drive(stage.store, take(stage, "w2"), engine(Model((says(),)), Effect("new", [])))

    first, second = [event for event in stage.events() if isinstance(event, ModelCalled)]
    assert first.request_hash != second.request_hash
    assert first.engine_hash != second.engine_hash


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


def test_a_plain_call_cut_short_is_never_run_again_and_the_model_is_told(stage: Stage) -> None:
    """Keeps: effect-at-most-once."""
    journal: Journal = []
    model = Model((asks("pay"), says("I looked")))
    assert drive(stage.store, stage.running(), engine(model, Effect("pay", journal, after=die))) is None

    assert drive(stage.store, take(stage, "w2"), engine(model, Effect("pay", journal))) == "drained"

    assert journal == [("t:3-0", 1)]
    assert last(stage, ToolFinished) == ToolFinished(
        "3-0",
        "Interrupted before its result was recorded, so its outcome is unknown — it may have fully, partly, or not "
        "applied. Check its effect before running it again.",
        is_error=True,
        source="unknown",
    )


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


def test_a_retry_safe_call_is_started_again(stage: Stage) -> None:
    journal: Journal = []
    model = Model((asks("read"), says()))
    assert drive(stage.store, stage.running(), engine(model, Effect("read", journal, True, die))) is None

    drive(stage.store, take(stage, "w2"), engine(model, Effect("read", journal, True)))

    assert journal == [("t:3-0", 1), ("t:3-0", 2)]
    assert last(stage, ToolFinished) == ToolFinished("3-0", "read ran as start 2")


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


# -- when a worker loses its claim -------------------------------------------------------------------------


def test_a_renewal_that_finds_the_claim_taken_cancels_the_step(stage: Stage) -> None:
    """The step stops, and its next write would fail anyway. Keeps: one-writer."""
    claim = stage.running()
    world = PointWorld()
    held = Held(world, stage.store, claim, world.monotonic() + 1e6)
    lost: list[Held] = []
    keeper = LeaseKeeper(world, stage.store, lease_seconds=LEASE, interval=20.0, wait=_never, on_lost=lost.append)
    keeper.keep(held)
    take(stage, "w2")

    keeper.beat()

    assert lost == [held]
    assert held.cancelled.is_set() and held.lost is not None
    with stage.nothing_changes(), pytest.raises(ClaimLost):
        held.append(1, _a_commit())
    keeper.stop()


def test_renewals_that_keep_failing_give_the_task_up_by_the_workers_own_clock(stage: Stage) -> None:
    """https://github.com/rails/solid_queue/pull/778"""
    world = SetWorld()
    held = Held(world, stage.store, stage.running(), world.seconds + LEASE)
    store = FaultyStore(stage.store, [Fault(Kind.UNAVAILABLE, "renew", times=9)])
    keeper = LeaseKeeper(world, store, lease_seconds=LEASE, interval=20.0, wait=_never)
    keeper.keep(held)

    world.seconds += LEASE - 0.001
    assert keeper.beat() == 1.0  # tried again soon
    assert held.lost is None
    world.seconds += 0.001
    keeper.beat()

    assert held.cancelled.is_set()
    with pytest.raises(ClaimLost, match="own clock"):
        held.check()
    keeper.stop()


@pytest.mark.holds("guarantee/reclaimed-cannot-write")
@pytest.mark.parametrize("occurrence", range(1, 6))
def test_a_worker_whose_append_is_refused_writes_nothing_more(stage: Stage, occurrence: int) -> None:
    """Keeps: one-writer, effect-at-most-once."""
    journal: Journal = []
    claim = stage.running()
    calls = 0

    def before_append(name: str, facts: Mapping[str, object]) -> None:
        nonlocal calls
        if name == "append.before":
            calls += 1
            if calls == occurrence:
                take(stage, "thief")

    model = Model((asks("a", "b"), says()))
    tools = [Effect(name, journal) for name in "ab"]
    with pytest.raises(Conflict):
        drive(stage.store, claim, engine(model, *tools), world=PointWorld(before_append))

    row = stage.row()
    assert calls == occurrence
    assert (row.worker, row.fail_attempts) == ("thief", 0)
    assert {entry.epoch for entry in stage.page().entries} <= {0, claim.epoch}


@pytest.mark.parametrize("kind", [Kind.UNAVAILABLE, Kind.LANDED, Kind.NOT_LANDED, Kind.LANDS_LATER])
@pytest.mark.parametrize("occurrence", range(1, 6))
def test_after_any_fault_of_any_append_the_next_worker_finishes_the_task(
    stage: Stage, kind: Kind, occurrence: int
) -> None:
    """Never retried blindly, charged to nobody, and no effect twice. Keeps: acked-stays, effect-at-most-once."""
    journal: Journal = []
    model = Model((asks("a", "b"), says("bye")))
    agent = engine(model, *[Effect(name, journal) for name in "ab"])
    store = FaultyStore(stage.store, [Fault(kind, "append", occurrence)])
    with pytest.raises((StoreUnavailable, CommitUnknown)):
        drive(store, stage.running(), agent)
    assert store.calls("append") == occurrence

    claim = take(stage, "w2") if stage.row().status is not Status.TERMINAL else None
    store.land_now()
    if claim is not None:
        assert claim.fail_attempts == 0
        assert drive(store, claim, agent) == "drained"

    assert store.unfired() == ()
    _finished_well(stage, journal)


def test_a_late_append_that_lands_before_the_takeover_is_read_by_it(stage: Stage) -> None:
    """Keeps: acked-stays."""
    journal: Journal = []
    agent = engine(Model((asks("a"), says())), Effect("a", journal))
    store = FaultyStore(stage.store, [Fault(Kind.LANDS_LATER, "append", 2, later_calls=1)])
    with pytest.raises(CommitUnknown):
        drive(store, stage.running(), agent)
    store.task("t")
    assert [landing.refusal for landing in store.landings] == [None]

    assert drive(store, take(stage, "w2"), agent) == "drained"

    assert journal == []  # its start was in the log, so nobody may start it again
    assert last(stage, ToolFinished) == ToolFinished("3-0", texts.OUTCOME_UNKNOWN, is_error=True, source="unknown")


@pytest.mark.parametrize("verb", ["read"])
def test_a_store_that_cannot_be_read_stops_the_step_and_charges_nobody(stage: Stage, verb: str) -> None:
    agent = engine(Model((says(),)))
    store = FaultyStore(stage.store, [Fault(Kind.UNAVAILABLE, verb)])
    with pytest.raises(StoreUnavailable):
        drive(store, stage.running(), agent)

    claim = take(stage, "w2")
    assert claim.fail_attempts == 0
    assert drive(store, claim, agent) == "drained"


@pytest.mark.parametrize("kind", [Kind.LANDED, Kind.LANDS_LATER])
def test_a_claim_whose_answer_was_lost_is_adopted(stage: Stage, kind: Kind) -> None:
    """Rather than leaving it until the lease runs out. Keeps: acked-stays."""
    stage.create()
    later = 1 if kind is Kind.LANDS_LATER else None
    store = FaultyStore(stage.store, [Fault(kind, "claim", later_calls=later)])

    claims, lease = Dispatcher(store).claim(worker_id="w1", lease_seconds=LEASE)

    assert lease is not None
    assert (lease.task_id, lease.claim.epoch, lease.claim.worker) == ("t", 1, "w1")
    assert store.calls("claim") == 1
    assert lease.held.append(1, _a_commit()).last_seq == 2
    assert len(claims.claims) == 1


def test_a_worker_that_is_told_to_stop_gives_its_task_back_at_once(stage: Stage) -> None:
    """What is known is recorded first: a finished tool is not asked about again."""
    journal: Journal = []
    claim = stage.running()
    world = PointWorld()
    held = Held(world, stage.store, claim, world.monotonic() + 1e6)
    agent = engine(
        Model((asks("a", "b"), says())), Effect("a", journal, after=lambda ctx: held.stop()), Effect("b", journal)
    )
    outcome = Runner(lambda state: agent, world, stage.store, held).drive()

    assert outcome == "stopped"
    assert stage.store.release(claim) is Status.PENDING
    assert kinds(stage)[-1] == "ToolFinished"
    assert drive(stage.store, stage.claim("w2"), agent) == "drained"
    assert journal == [("t:3-0", 1), ("t:3-1", 1)]


# -- every crash point -------------------------------------------------------------------------------------


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
        _calls_pair(events)
    assert n > 15, "the run passed next to no points"


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


def _finished_well(stage: Stage, journal: Journal) -> None:
    events = stage.events()
    assert events[-1] == TaskCompleted("bye")
    starts = Counter(key for key, _ in journal)
    assert all(count == 1 for count in starts.values()), journal
    finished = {event.call_id: event.source for event in events if isinstance(event, ToolFinished)}
    assert sorted(call_id[-1] for call_id in finished) == ["0", "1"]
    for call_id, source in finished.items():
        assert starts[f"t:{call_id}"] in ((1,) if source == "ran" else (0, 1))
    _calls_pair(events)
    entries: list[Entry] = list(stage.page().entries)
    assert [entry.epoch for entry in entries] == sorted(entry.epoch for entry in entries)
    assert fold("t", entries).status is Status.TERMINAL


def _calls_pair(events: list[Event]) -> None:
    """Keeps: calls-pair."""
    assert isinstance(events[0], TaskCreated)
    open_model, open_tools = False, set[str]()
    for event in events:
        match event:
            case ModelCalled():
                assert not open_model
                open_model = True
            case ModelReplied() | TurnFailed() | StepAttemptAbandoned():
                open_model = False
            case ToolStarted():
                open_tools.add(event.call_id)
            case ToolFinished():
                open_tools.discard(event.call_id)
            case _:
                pass
    assert not open_model and not open_tools


def _a_commit() -> Commit:
    return Commit((ModelCalled("h", 1),))


def _never(seconds: float) -> bool:
    return True
