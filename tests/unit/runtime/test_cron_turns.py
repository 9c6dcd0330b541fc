"""A task that its cron table wakes: when it rests until what, what begins a turn, and what an outage leaves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from noeta.core.events import CronFired, CronRemoved, CronSet, TaskSuspended, ToolFinished
from noeta.core.fold import fold
from noeta.core.model import ModelReply, RequestedCall, UserSaid
from noeta.core.task import Status
from noeta.core.wake import NEXT_GOAL, HumanResponseReceived
from noeta.plugins.cron import CronCreate, CronDelete
from noeta.runtime.worker import WorkerLoop
from tests.actors import Model, engine, says
from tests.unit.runtime.scene import Host, Scene

START = datetime(2027, 3, 1, 8, 59, 30, tzinfo=UTC).timestamp()
NINE = START + 30
DAY = 86_400


def sets(expression: str = "0 9 * * *", prompt: str = "the report, please") -> ModelReply:
    return _asks("CronCreate", {"expression": expression, "prompt": prompt})


def _asks(*tool_and_input: Any) -> ModelReply:
    pairs = zip(tool_and_input[::2], tool_and_input[1::2], strict=True)
    return ModelReply("", tuple(RequestedCall(tool, input) for tool, input in pairs), "tool_use")


class Stage(Scene):
    """A task that rests between turns, at half a minute to nine."""

    def __init__(self, *replies: ModelReply, **fields: Any) -> None:
        super().__init__(engine(Model(replies), CronCreate(), CronDelete()), clock=lambda: self.clock.seconds)
        self.clock.seconds = START
        self.create(**{"interactive": True, **fields})

    def fired(self) -> list[CronFired]:
        return [event for event in self.events() if isinstance(event, CronFired)]

    def told(self) -> list[str]:
        """What the model was told by anybody, after its goal."""
        assert isinstance(self.agent.provider, Model)
        return [said.text for said in self.agent.provider.requests[-1].said if isinstance(said, UserSaid)][1:]

    def another(self) -> WorkerLoop:
        return WorkerLoop(Host(self.store, self.agent), worker_id="w2", clock=lambda: self.clock.seconds)


def test_a_task_with_a_table_rests_until_its_next_occurrence_and_holds_nothing() -> None:
    stage = Stage(sets(), says("set"))

    stage.loop.tick()

    row = stage.memory.task("t")
    assert (row.status, row.kept, row.worker) == (Status.SUSPENDED, False, None)
    assert row.ready_at == NINE * 1_000_000
    assert stage.events()[-1] == TaskSuspended(HumanResponseReceived(NEXT_GOAL, timeout_at=NINE), "set")
    assert CronSet("3-0", "0 9 * * *", "UTC", "the report, please", START) in stage.events()
    assert stage.loop.tick() is False


def test_an_occurrence_begins_a_turn_with_its_prompt_and_the_task_rests_until_the_next() -> None:
    stage = Stage(sets(), says("set"), says("the report"))
    stage.loop.tick()

    stage.clock.seconds = NINE
    assert stage.loop.tick()

    assert stage.fired() == [CronFired("3-0", NINE, 0)]
    assert stage.told() == ["the report, please"]
    assert stage.memory.task("t").ready_at == (NINE + DAY) * 1_000_000
    assert stage.loop.tick() is False, "an occurrence fires once"


def test_an_outage_is_caught_up_with_once_and_the_skipped_ones_are_counted() -> None:
    stage = Stage(sets("*/5 * * * *", "look"), says("set"), says("looked"))
    stage.loop.tick()

    stage.clock.seconds = NINE + 3_600 + 61
    assert stage.another().tick()

    assert stage.fired() == [CronFired("3-0", NINE + 3_600, 12)]
    assert stage.told() == ["look\n[12 earlier occurrences were skipped]"]
    assert stage.another().tick() is False


def test_last_fired_is_in_the_log_and_not_in_memory() -> None:
    """Workers that come and go around the due moment, fifty times. https://github.com/dkron-io/dkron/issues/1210"""
    stage = Stage(sets("* * * * *", "look"), says("set"), *(says("looked") for _ in range(50)))
    stage.loop.tick()

    for minute in range(50):
        due = NINE + 60 * minute
        stage.clock.seconds = due - 0.5
        assert stage.another().tick() is False
        stage.clock.seconds = due + 2
        assert stage.another().tick() is True
        assert stage.another().tick() is False

    assert stage.fired() == [CronFired("3-0", NINE + 60 * minute, 0) for minute in range(50)]


def test_what_is_due_together_begins_one_turn() -> None:
    daily = {"expression": "0 9 * * *", "prompt": "one"}
    monthly = {"expression": "0 9 1 * *", "prompt": "two"}
    both = _asks("CronCreate", daily, "CronCreate", monthly)
    stage = Stage(both, says("set"), says("both"))
    stage.loop.tick()

    stage.clock.seconds = NINE + 1
    stage.loop.tick()

    assert [event.cron_id for event in stage.fired()] == ["3-0", "3-1"]
    assert stage.told() == ["one", "two"]
    assert isinstance(stage.events()[-1], TaskSuspended)


def test_an_occurrence_during_a_turn_is_not_lost() -> None:
    stage = Stage(sets(), says("set"), says("answered"), says("the report"))
    stage.loop.tick()
    stage.memory.post("t", HumanResponseReceived(text="hello"), "m")

    def pass_nine(request: object) -> None:
        stage.clock.seconds = NINE + 5

    assert isinstance(stage.agent.provider, Model)
    stage.agent.provider.before = pass_nine
    stage.loop.tick()
    assert stage.fired() == []
    stage.loop.tick()

    assert stage.fired() == [CronFired("3-0", NINE, 0)]
    assert stage.told()[-1] == "the report, please"


def test_a_message_that_comes_at_the_same_time_goes_first_and_nothing_is_lost() -> None:
    stage = Stage(sets(), says("set"), says("answered"), says("the report"))
    stage.loop.tick()
    stage.clock.seconds = NINE + 1
    stage.memory.fire_due_timers()
    stage.memory.post("t", HumanResponseReceived(text="hello"), "m")

    while stage.loop.tick():
        pass

    assert stage.fired() == [CronFired("3-0", NINE, 0)]
    assert stage.told() == ["hello", "the report, please"]
    assert stage.memory.read("t").unread == ()


def test_a_removed_entry_fires_no_more() -> None:
    stage = Stage(sets(), _asks("CronDelete", {"cron": "3-0"}), says("gone"))
    stage.loop.tick()

    assert CronRemoved("3-0") in stage.events()
    assert stage.memory.task("t").ready_at is None


def test_a_task_that_ends_with_its_turn_has_no_table() -> None:
    stage = Stage(sets(), says("no table, then"), interactive=False)
    stage.loop.tick()

    (refused,) = [event for event in stage.events() if isinstance(event, ToolFinished)]
    assert refused.is_error
    assert not any(isinstance(event, CronSet) for event in stage.events())


def test_a_failed_turn_does_not_stop_the_table() -> None:
    stage = Stage(sets())  # the model has nothing to say: the turn fails
    stage.loop.tick()

    assert isinstance(stage.events()[-1], TaskSuspended)
    assert stage.memory.task("t").ready_at == NINE * 1_000_000


def test_a_turn_that_the_table_begins_leaves_a_failed_one_behind() -> None:
    """As a message's does: two bugs between which years of good turns lie are not two in a row."""
    stage = Stage(sets(), says("set"), says("the report"))
    stage.loop.tick()

    def fail(request: object) -> None:
        raise RuntimeError("planted")

    assert isinstance(stage.agent.provider, Model)
    stage.agent.provider.before = fail
    stage.memory.post("t", HumanResponseReceived(text="hello"), "m")
    stage.loop.tick()
    assert fold("t", stage.memory.read("t").entries).turn_failed
    stage.agent.provider.before = lambda request: None

    stage.clock.seconds = NINE
    stage.loop.tick()

    assert [event.due_at for event in stage.fired()] == [NINE]
    assert not fold("t", stage.memory.read("t").entries).turn_failed
