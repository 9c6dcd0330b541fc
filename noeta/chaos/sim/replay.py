"""A schedule, played again: the same trace, byte for byte."""

from __future__ import annotations

from noeta.chaos.schedule import Kind, Play, Schedule
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.run import Execution, Playable
from noeta.chaos.sim.scheduler import Trace
from noeta.chaos.sim.scripts import Case
from noeta.chaos.sim.server import MakeStore
from noeta.chaos.sim.strikes import anchored
from noeta.core.errors import BadInput


def replay(schedule: Schedule, *, keep_trace: bool = False, make_store: MakeStore | None = None) -> Result:
    """Play a schedule of the simulator. Faults whose anchor does not come about do not strike; the schedule of the
    result names those that did.

    Raises:
        BadInput: the schedule has no ``play``, so it is a storm's.
    """
    return execution_of(schedule, keep_trace=keep_trace, make_store=make_store).run()


def execution_of(schedule: Schedule, *, keep_trace: bool = False, make_store: MakeStore | None = None) -> Execution:
    """The execution that a schedule describes, not yet run.

    Raises:
        BadInput.
    """
    play = schedule.play
    if play is None:
        raise BadInput("schedule.play", "this is the schedule of a storm: strike it with `noeta cluster --schedule`")
    skews = {fault.target: fault.seconds("seconds") for fault in schedule.faults if fault.kind is Kind.SKEW}
    return Execution(
        playable(play),
        anchored(schedule.faults),
        seed=schedule.seed,
        turns=play.turns,
        workers=play.workers,
        skews=skews,
        excuses=play.lenient,
        trace=Trace(keep=keep_trace),
        make_store=make_store,
    )


def playable(play: Play) -> Playable:
    """What a schedule plays: scripted tasks, or a user's own agent.

    Raises:
        BadInput: the agent cannot be loaded.
    """
    if play.app is not None:
        from noeta.chaos.sim.app_cast import load_crash_app

        return load_crash_app(play.app)
    return Case(play.name, play.tasks, play.messages, unresolved=play.unresolved)
