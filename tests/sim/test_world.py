"""The simulated world: time, events, order, freezing and the cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noeta.chaos.sim.scheduler import STEP, WALL_START, Scheduler, Trace
from noeta.chaos.sim.world import SimWorld
from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.world import Event, ProcessDied, World

Body = Callable[[World], None]


def play(*bodies: Body, keep: bool = False) -> Scheduler:
    """Run each of these in a process of its own, until nothing is left to do."""
    scheduler = Scheduler(0, trace=Trace(keep=keep))
    for number, body in enumerate(bodies):
        process = scheduler.process(f"p{number}")
        process.start("main", lambda body=body, process=process: body(SimWorld(process)))  # type: ignore[misc]
    scheduler.run(seconds_max=10_000, points_max=10_000)
    scheduler.close()
    return scheduler


def seconds(micros: int) -> float:
    return micros / MICROS_PER_SECOND


def test_waiting_takes_as_long_as_it_says_and_yield_points_one_step() -> None:
    seen: list[float] = []

    def body(world: World) -> None:
        seen.append(world.monotonic())
        assert not world.event().wait(30.0)
        seen.append(world.monotonic())
        world.point("here")
        seen.append(world.monotonic())

    play(body)

    assert seen == pytest.approx([0.0, 30.0 + seconds(STEP), 30.0 + seconds(2 * STEP)])


def test_wall_clock_counts_from_a_fixed_instant_and_may_be_wrong() -> None:
    scheduler = Scheduler(0)
    right, wrong = scheduler.process("right"), scheduler.process("wrong", wall_offset_seconds=-3600)

    assert SimWorld(right).wall() == seconds(WALL_START)
    assert SimWorld(wrong).wall() == seconds(WALL_START) - 3600
    assert SimWorld(wrong).monotonic() == 0.0


def test_event_ends_a_wait_before_its_time() -> None:
    told: list[object] = []

    def body(world: World) -> None:
        event = world.event()
        world.spawn("setter", lambda: (world.event().wait(2.0), event.set()))  # type: ignore[func-returns-value,arg-type]
        told.append(event.wait(100.0))
        told.append(round(world.monotonic()))
        told.append(event.wait(0))

    play(body)

    assert told == [True, 2, True]


def test_wait_any_names_the_first_set_event_in_the_order_given() -> None:
    def body(world: World) -> None:
        first, second, third = (world.event() for _ in range(3))
        third.set()
        second.set()

        assert world.wait_any([first, second, third], 10.0) is second
        assert world.wait_any([first], 0.5) is None
        assert world.wait_any([first], 0.0) is None

    assert play(body).crashes == []


def test_spawned_is_done_however_it_ends() -> None:
    def fail() -> None:
        raise RuntimeError("on purpose")

    def body(world: World) -> None:
        well, badly = world.spawn("well", lambda: None), world.spawn("badly", fail)

        assert world.wait_any([well.done], 1.0) is well.done
        assert badly.done.wait(1.0)

    crashes = play(body).crashes

    assert [(crash.activity, str(crash.error)) for crash in crashes] == [("badly", "on purpose")]


def test_who_was_ready_first_goes_first() -> None:
    order: list[str] = []

    def body(name: str) -> Body:
        def run(world: World) -> None:
            for _ in range(3):
                order.append(name)
                world.point("turn")

        return run

    play(body("a"), body("b"), body("c"))

    assert order == list("abcabcabc")


def test_a_frozen_process_stands_still_while_its_clock_goes_on() -> None:
    moments: list[float] = []
    scheduler = Scheduler(0)
    process = scheduler.process("p")
    world = SimWorld(process)

    def ticking() -> None:
        for _ in range(4):
            world.event().wait(1.0)
            moments.append(world.monotonic())

    process.start("ticking", ticking)
    scheduler.at(1.5, lambda: process.freeze(10.0))
    scheduler.run(seconds_max=100, points_max=1000)

    assert [round(moment) for moment in moments] == [1, 12, 13, 14]


def test_a_killed_process_does_nothing_more_through_any_handle() -> None:
    scheduler = Scheduler(0)
    process = scheduler.process("p")
    world = SimWorld(process)
    kept = world.event()
    process.kill()

    uses: list[Callable[[], object]] = [
        world.wall,
        world.monotonic,
        world.event,
        kept.set,
        kept.is_set,
        lambda: kept.wait(1.0),
        lambda: world.wait_any([kept], 1.0),
        lambda: world.spawn("s", lambda: None),
        lambda: world.random("r"),
        lambda: world.point("p"),
    ]

    for use in uses:
        with pytest.raises(ProcessDied):
            use()
    assert not kept.flag


def test_a_kill_unwinds_every_activity_without_letting_one_go_on() -> None:
    did: list[str] = []
    scheduler = Scheduler(0)
    process = scheduler.process("p")
    world = SimWorld(process)

    def stubborn() -> None:
        while True:
            try:
                world.event().wait()
                did.append("went on")
            except Exception:
                did.append("was handled")
                raise
            finally:
                did.append("finally")
                world.point("from a finally")
                did.append("reached the world")

    process.start("stubborn", stubborn)
    scheduler.at(1.0, lambda: (process.start("never begun", lambda: did.append("began")), process.kill()))  # type: ignore[func-returns-value,arg-type]
    scheduler.run(seconds_max=10, points_max=100)

    assert did == ["finally"]
    assert process.activities == []


def test_dying_ends_the_one_who_dies_at_that_very_point() -> None:
    did: list[str] = []
    scheduler = Scheduler(0)
    process, other = scheduler.process("p"), scheduler.process("other")
    process.on_death = lambda dead: did.append(f"{dead.name} is dead")

    def dying() -> None:
        did.append("before")
        process.die()
        did.append("after")

    process.start("dying", dying)
    other.start("other", lambda: SimWorld(other).point("later"))
    scheduler.run(seconds_max=10, points_max=100)

    assert did == ["before", "p#1 is dead"]
    assert other.alive


def test_random_streams_depend_on_seed_process_and_name_alone() -> None:
    def draw(seed: int, process: str, name: str) -> int:
        return SimWorld(Scheduler(seed).process(process)).random(name).getrandbits(64)

    assert draw(1, "w1", "claim-tokens") == 0xDF9108F19586E795
    assert len({draw(1, "w1", "a"), draw(2, "w1", "a"), draw(1, "w2", "a"), draw(1, "w1", "b")}) == 4


def test_the_trace_has_a_line_for_every_yield_point() -> None:
    def body(world: World) -> None:
        world.point("save", task="t1", seq=3)
        event: Event = world.event()
        event.set()
        event.wait(1.0)

    trace = play(body, keep=True).trace

    assert trace.lines == ["0.001000 p0#1 main save task=t1 seq=3", "0.002000 p0#1 main wait timeout=1.0"]
    assert trace.hash == play(body).trace.hash
    assert trace.hash != play(body, body).trace.hash
