"""The scripts of the exhaustive set that wait, delegate and are told to end: each kind of wait once, small."""

from __future__ import annotations

from typing import Any, Final

from noeta.chaos.sim.scripts import LEASE_SECONDS, Case, call, calls, one_shot, script
from scripted_model.script import (
    Agent,
    AgentGroup,
    Asked,
    AwaitEvent,
    Cut,
    Handback,
    Question,
    Say,
    Script,
    Step,
    Timer,
    Tools,
    Turn,
    asking,
)
from scripted_model.words import turn_message
from scripted_model.workload import ScheduledMessage, ScriptedTask

NAP: Final = 3.0
"""A wait that is over within a lease."""

LONG: Final = 2.5 * LEASE_SECONDS
"""A wait of several leases."""


def asks(*asked: Asked | str) -> Tools:
    """One reply that asks for these; a name is a call to a journalling tool."""
    return Tools(tuple(call(one) if isinstance(one, str) else asking("", one) for one in asked))


def below(name: str, *steps: Step) -> Script:
    """What a sub-agent plays."""
    return script(name, Turn(steps))


def said(
    name: str,
    *turns: Turn,
    messages: tuple[dict[str, Any], ...],
    is_interactive: bool = False,
    says: bool = False,
    parks: bool = False,
) -> Case:
    """A case of one task to which clients say these messages, in order."""
    task = ScriptedTask(name, script(name, *turns, is_interactive=is_interactive, parks=parks))
    scheduled = [ScheduledMessage(task=name, number=n, **{"turn": 1, **one}) for n, one in enumerate(messages, 1)]
    return Case(name, (task,), tuple(scheduled), says)


def cancelled(name: str, *steps: Step, when: str = "waiting", delay: float = 0.0, says: bool = False) -> Case:
    """A one-shot task that somebody cancels, twice under one key."""
    order = {"kind": "cancel", "when": when, "delay_seconds": delay, "posts": 2, "may_be_refused": True, "text": "off"}
    return said(name, Turn(steps), messages=(order,), says=says)


def answer(**more: Any) -> dict[str, Any]:
    return {"kind": "answer", **more}


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": "event", "event_kind": kind, **more}


def next_turn(name: str, number: int) -> dict[str, Any]:
    return {"kind": "turn", "turn": number, "text": turn_message(number, name)}


def _chain(name: str, depth: int) -> Script:
    """Sub-agents of sub-agents, so many below the first; the last one works."""
    if depth == 0:
        return below(f"{name}-0", calls("plain"), Say())
    return below(f"{name}-{depth}", asks(Agent(_chain(name, depth - 1))), Say())


_FAST: Final = ("fast", Say())

WAITING_CASES: Final = (
    one_shot("timer", asks(Timer(NAP)), Say()),
    one_shot("timers", asks(Timer(LONG), "plain", Timer(NAP)), Say()),
    said("question", Turn((asks(Question("which?")), Say())), messages=(answer(posts=2),)),
    one_shot("question-timeout", asks(Question("which?", NAP)), Say()),
    said("question-race", Turn((asks(Question("which?", NAP)), Say())), messages=(answer(delay_seconds=NAP),)),
    said(
        "event-early",
        Turn((asks(AwaitEvent("built")), Say())),
        messages=(event("built", when="created", posts=2),),
        says=True,
    ),
    said(
        "event-late",
        Turn((asks(AwaitEvent("built"), "plain"), Say())),
        messages=(event("built", when="waiting", payload={"ok": True}),),
        says=True,
    ),
    one_shot("event-timeout", asks(AwaitEvent("never", NAP)), Say()),
    one_shot("agent", asks(Agent(below("helper", calls("plain"), Say()))), Say()),
    one_shot("agent-fast", asks(Agent(below(*_FAST))), Say()),
    one_shot("agent-beside", asks(Agent(below(*_FAST)), Agent(below("fast-2", Say())), "retry_safe"), Say()),
    one_shot("agent-asks", asks(Agent(below("asker", asks(Question("who?")), Say()))), Say()),
    # The name is one whose sub-agent is not answered but cancelled: see `scripted_model.workload.answer_for`.
    one_shot("agent-cancelled-5", asks(Agent(below("unanswered", asks(Question("who?")), Say()))), Say()),
    one_shot("agent-fails", asks(Agent(below("hurt", Cut()))), Say()),
    one_shot(
        "group",
        asks(AgentGroup((below("one", Say()), below("two", calls("recoverable"), Say()), below("three", Cut())))),
        Say(),
    ),
    one_shot(
        "group-beside",
        asks(AgentGroup((below("early-1", Say()), below("early-2", Say()))), "retry_safe"),
        Say(),
    ),
    one_shot("nested", asks(Agent(_chain("nest", 1))), Say()),
    one_shot("too-deep", asks(Agent(_chain("deep", 3))), Say()),
    said(
        "background",
        Turn((asks(Agent(below("aside", calls("plain"), Say()), background=True)), Say())),
        Turn((calls("retry_safe"), Say())),
        messages=(next_turn("background", 2),),
        is_interactive=True,
    ),
    one_shot(
        "background-below",
        asks(Agent(below("starter", asks(Agent(below("orphan", calls("plain"), Say()), background=True)), Say()))),
        Tools((call("slow", seconds=NAP),)),
        Say(),
    ),
    one_shot("handback", asks(Agent(below("reporter", asks(Handback("half done"), "plain"), Say()))), Say()),
    cancelled("cancel-begun", Tools((call("slow", seconds=LONG),)), Say(), when="begun", delay=1.0, says=True),
    cancelled("cancel-created", calls("plain"), Say(), when="created", says=True),
    cancelled("cancel-timer", asks(Timer(LONG)), Say(), says=True),
    cancelled("cancel-agent", asks(Agent(below("slow-one", Tools((call("slow", seconds=LONG),)), Say()))), Say()),
    cancelled("cancel-tree", asks(AgentGroup((_chain("tree", 1), below(*_FAST)))), Say(), says=True),
    said(
        "closed",
        Turn((Tools((call("slow", seconds=LONG),)), Say())),
        Turn((calls("plain"), Say())),
        messages=({"kind": "close", "when": "begun", "delay_seconds": 1.0}, next_turn("closed", 2)),
        is_interactive=True,
    ),
    said(
        "closed-question",
        Turn((asks(Question("now?", NAP)), Say())),
        Turn((asks(Question("and now?", LONG)), Say())),
        messages=({"kind": "close", "when": "waiting", "delay_seconds": LONG}, next_turn("closed-question", 2)),
        is_interactive=True,
        says=True,
    ),
    cancelled(
        "cancel-retry-safe", Tools((call("slow_retry_safe", seconds=LONG),)), Say(), when="begun", delay=1.0, says=True
    ),
    one_shot("background-short", asks(Agent(below("left", calls("plain"), Say()), background=True)), Say()),
    cancelled(
        "cancel-above",
        asks(
            Agent(
                below(
                    "starter-2",
                    Tools((call("slow", seconds=1.0), asking("", Agent(below("orphan-2", Say()), True)))),
                    Say(),
                )
            )
        ),
        Say(),
        delay=0.5,
        says=True,
    ),
    said(
        "flood",
        Turn((calls("plain"), Say())),
        messages=tuple(event(f"noise-{n}", when="created", may_be_refused=True) for n in range(4)),
        says=True,
    ),
)
