"""The scripts of the exhaustive set that work in the background, are woken by a cron table, ask before they act, or are
parked: each kind of trouble once, small.

The simulation begins five seconds before a full minute, when a table that is due every minute fires first.
"""

from __future__ import annotations

from typing import Any, Final

from noeta.chaos.sim.scripts import Case, call, calls, one_shot
from noeta.chaos.sim.waiting_scripts import LONG, NAP, answer, asks, below, cancelled, event, next_turn, said
from noeta.core.texts import APPROVE
from scripted_model.script import (
    Agent,
    AwaitEvent,
    Cron,
    Gating,
    Question,
    ReadJob,
    Say,
    Shell,
    Step,
    StopCron,
    StopJob,
    Timer,
    Tools,
    Turn,
)
from scripted_model.workload import REFUSAL

SECOND: Final = Shell(lines=2, every_seconds=0.5)
"""A shell that ends by itself, after a second."""

ENDLESS: Final = Shell(lines=None, every_seconds=1.0)
STUBBORN: Final = Shell(lines=None, every_seconds=1.0, stubborn=True)
FAILS: Final = Shell(lines=1, every_seconds=0.5, exit_code=3)

MINUTELY: Final = Cron("* * * * *", "look around")
FIRST_DUE: Final = 5.0
"""When that fires first, in seconds from the beginning; an idle worker looks as often."""


def gated(tool: str, gate: Gating, **more: Any) -> Tools:
    """One reply that calls a tool about which the gate has something to say."""
    return Tools((call(tool, gate=gate, **more),))


def killed(tool: str, through: int, **more: Any) -> Tools:
    """One reply that calls a tool that kills its worker."""
    return Tools((call(tool, dies_through_start=through, **more),))


def _decision(text: str, **more: Any) -> dict[str, Any]:
    return {"kind": "decision", "text": text, **more}


def _chat(name: str, *turns: Turn, delays: tuple[float, ...], says: bool = False) -> Case:
    """A case of one task with several turns, each begun so many seconds after the rest before it."""
    messages = [{**next_turn(name, number), "delay_seconds": delay} for number, delay in enumerate(delays, 2)]
    return said(name, *turns, messages=tuple(messages), is_interactive=True, says=says)


def _turn(*steps: Step) -> Turn:
    return Turn((*steps, Say()))


BACKGROUND_CASES: Final = (
    one_shot("job-ends", asks(SECOND), Tools((call("slow", seconds=2.0),)), Say()),
    one_shot("job-fails", asks(FAILS), asks(Timer(NAP)), Say()),
    _chat("job-wakes", _turn(asks(SECOND)), _turn(), delays=(2.0,), says=True),
    one_shot("job-outlives", asks(STUBBORN), calls("plain"), Say()),
    one_shot("job-of-a-child", asks(Agent(below("sheller", asks(ENDLESS), Say()))), Say()),
    one_shot("job-two", asks(SECOND, ENDLESS), asks(Timer(NAP)), Say()),
    said("kept-question", _turn(asks(ENDLESS, Question("go?"))), messages=(answer(delay_seconds=2.0, posts=2),)),
    one_shot("kept-timer", asks(ENDLESS, Timer(NAP)), Say()),
    said(
        "kept-event",
        _turn(asks(ENDLESS, AwaitEvent("built"))),
        messages=(event("built", when="created", delay_seconds=1.0),),
        says=True,
    ),
    one_shot("kept-child", asks(ENDLESS, Agent(below("beside", calls("retry_safe"), Say()))), Say()),
    cancelled("kept-cancelled", asks(ENDLESS, Timer(LONG)), Say(), delay=1.0, says=True),
    said(
        "kept-closed",
        _turn(asks(ENDLESS, Timer(LONG))),
        _turn(asks(StopJob("kept-closed#1"))),
        messages=({"kind": "close", "when": "waiting", "delay_seconds": 1.0}, next_turn("kept-closed", 2)),
        is_interactive=True,
    ),
    one_shot("job-read", asks(ENDLESS), asks(ReadJob("job-read#1")), asks(StopJob("job-read#1")), Say()),
    _chat("cron", _turn(asks(MINUTELY)), _turn(asks(StopCron("cron#1"))), delays=(FIRST_DUE + 3.0,)),
    _chat(
        "cron-outage",
        _turn(asks(MINUTELY)),
        _turn(),
        _turn(asks(StopCron("cron-outage#1"))),
        delays=(FIRST_DUE + 3.0, 3.0),
    ),
    _chat("cron-message", _turn(asks(MINUTELY)), _turn(asks(StopCron("cron-message#1"))), delays=(FIRST_DUE,)),
    said("approve", _turn(gated("plain", "approve")), messages=(_decision(APPROVE, posts=2),)),
    said("deny", _turn(gated("plain", "refuse")), messages=(_decision(REFUSAL),)),
    said(
        "approve-late",
        _turn(Tools((call("retry_safe", gate="approve_rewritten"), call("plain")))),
        messages=(_decision(APPROVE, delay_seconds=LONG),),
    ),
    one_shot("rewrite", gated("retry_safe", "rewrite"), Say()),
    one_shot("denied-by-gate", gated("plain", "deny"), Say()),
    one_shot("park-and-type", killed("killer", 1), Say(), parks=True),
    one_shot("park-retry-safe", killed("killer_retry_safe", 1), Say(), parks=True),
    said(
        "park-refused-by-gate",
        _turn(killed("killer_retry_safe", 1, gate="approve")),
        messages=(_decision(APPROVE),),
        parks=True,
    ),
)
