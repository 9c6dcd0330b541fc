"""How the scripts of tasks that wait and delegate are drawn, and what a client does while they wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from scripted_model.drawing import Drawing
from scripted_model.profile import Kind
from scripted_model.script import (
    SUBTASK_DEPTH_MAX,
    Agent,
    AgentGroup,
    AwaitEvent,
    Call,
    Cut,
    Empty,
    Fail,
    Handback,
    Odd,
    Question,
    Say,
    Script,
    Step,
    Timer,
    Tools,
    Turn,
)

_ODD: Final = tuple(Odd)

_PAYLOADS: Final[tuple[Any, ...]] = (None, {"from": "outside", "n": 7}, ["a", None, 1.5], "text", 0, False)
"""What an event brings: JSON of every kind, and nothing, which is not the same as no event."""


# -- waits ----------------------------------------------------------------------------------------------------------


def _timer(draw: Drawing) -> Call:
    return draw.ask(Timer(draw.span(draw.profile.wait_leases)))


def _question(draw: Drawing, turn: int | None = 1, *, limit: float | None = None) -> Call:
    """A question, and its answer in this turn; ``turn`` None: nobody schedules one."""
    odd = draw.stream.choice(_ODD) if draw.stream.chance(0.3) else None
    call = draw.ask(Question(f"which way at {draw.next_tag}?", limit, odd))
    if turn is not None:
        draw.plan("answer", turn, needed=limit is None)
    return call


def _event(draw: Drawing, turn: int = 1, *, limit: float | None = None, comes: bool = True) -> Call:
    """A wait for an event of its own kind, which comes early or late, or not at all."""
    kind = f"news for {draw.next_tag}"
    if comes:
        early = draw.stream.chance(0.5)
        draw.plan(
            "event",
            turn,
            leases=(0.0, 0.3) if early else (0.0, 1.0),
            needed=limit is None,
            when="created" if early else "waiting",
            event_kind=kind,
            payload=draw.stream.choice(_PAYLOADS),
        )
    return draw.ask(AwaitEvent(kind, limit))


def _timers(draw: Drawing) -> tuple[Turn, ...]:
    if draw.stream.chance(0.5):
        return draw.about(Tools((_timer(draw),)))
    # Two at once, of which the second may be over first.
    return draw.about(Tools((_timer(draw), draw.ordinary(), _timer(draw))))


def _questions(draw: Drawing) -> tuple[Turn, ...]:
    draw.interactive = draw.stream.chance(0.4)
    turns = []
    for number in range(1, 3 if draw.interactive else 2):
        calls = [_question(draw, number)]
        if draw.stream.chance(0.3):
            calls += [draw.ordinary(), _question(draw, number)]
        steps = [Tools((_question(draw, number),))] if draw.stream.chance(0.3) else []
        turns.append(Turn((*draw.padding(1), Tools(tuple(calls)), *steps, *draw.padding(1), Say())))
    return tuple(turns)


def _question_timeout(draw: Drawing) -> tuple[Turn, ...]:
    limit = draw.span(draw.profile.wait_leases)
    if draw.stream.chance(0.5):
        return draw.about(Tools((_question(draw, None, limit=limit),)))
    call = _question(draw, None, limit=limit)
    # About as likely before the end of the time as after it.
    draw.plan("answer", leases=(0.0, 2 * limit / draw.profile.lease_seconds))
    return draw.about(Tools((call,)))


def _events(draw: Drawing) -> tuple[Turn, ...]:
    limit = draw.span(draw.profile.wait_leases)
    timed = _event(draw, limit=limit, comes=draw.stream.chance(0.5))
    calls = [timed, *(_event(draw) for _ in range(draw.stream.between(1, 2)))]
    if draw.stream.chance(0.4):
        return draw.about(Tools((*calls, draw.ordinary())))
    return draw.about(*(Tools((call,)) for call in calls))


# -- sub-agents -----------------------------------------------------------------------------------------------------


def _agent(draw: Drawing, child: Script, *, background: bool = False) -> Call:
    return draw.ask(Agent(child, background))


def _fast(draw: Drawing) -> Script:
    """A sub-agent that ends with its first reply."""
    child = draw.below()
    return child.script("fast", (Turn((Say(odd=draw.stream.choice(_ODD) if draw.stream.chance(0.2) else None),)),))


def _failing(draw: Drawing) -> Script:
    child = draw.below()
    endings: tuple[Step, ...] = (Fail(), Fail(None, retryable=False), Cut())
    ending = draw.stream.choice(endings)
    steps = [] if draw.stream.chance(0.3) else [Tools((child.ordinary(),))]
    return child.script("failing", (Turn((*steps, ending)),))


def _worker(draw: Drawing) -> Script:
    """A sub-agent that takes its time, or waits itself."""
    child = draw.below()
    calls: dict[str, Callable[[], Call]] = {
        "ordinary": child.ordinary,
        "slow": child.slow,
        "timer": lambda: _timer(child),
        "question": lambda: _question(child, None),
        "news": lambda: _event(child, limit=child.span(draw.profile.wait_leases), comes=False),
    }
    what = draw.stream.weighted({"ordinary": 3, "slow": 3, "timer": 2, "question": 2, "news": 1})
    ending: Step = Empty() if draw.stream.chance(0.1) else Say()
    return child.script("worker", (Turn((Tools((calls[what](),)), *child.padding(1), ending)),))


def _any_child(draw: Drawing) -> Script:
    return draw.stream.weighted({_worker: 4, _fast: 2, _failing: 1})(draw)


def _agents(draw: Drawing) -> tuple[Turn, ...]:
    if draw.stream.chance(0.6):
        return draw.about(Tools((_agent(draw, _worker(draw)),)))
    # Two calls at once, each with a sub-agent of its own, beside an ordinary one.
    return draw.about(Tools((_agent(draw, _worker(draw)), draw.ordinary(), _agent(draw, _any_child(draw)))))


def _group(draw: Drawing) -> tuple[Turn, ...]:
    members = tuple(_any_child(draw) for _ in range(draw.stream.between(1, draw.profile.group_members)))
    return draw.about(Tools((draw.ask(AgentGroup(members)),)))


def _nested(draw: Drawing) -> tuple[Turn, ...]:
    child = draw.below()
    if draw.stream.chance(0.5):
        below = _agent(child, _any_child(child))
    else:
        below = child.ask(AgentGroup(tuple(_any_child(child) for _ in range(child.stream.between(1, 3)))))
    middle = child.script("nested", (Turn((*child.padding(1), Tools((below,)), *child.padding(1), Say())),))
    return draw.about(Tools((_agent(draw, middle),)))


def _too_deep(draw: Drawing) -> tuple[Turn, ...]:
    """A chain down to the budget, whose last link asks for one more, in one of the ways there are."""
    chain = [draw]
    for _ in range(SUBTASK_DEPTH_MAX):
        chain.append(chain[-1].below())
    last = chain[-1]
    ways: tuple[Callable[[], Call], ...] = (
        lambda: _agent(last, _fast(last)),
        lambda: _agent(last, _fast(last), background=True),
        lambda: last.ask(AgentGroup((_fast(last), _fast(last)))),
    )
    refused = last.stream.choice(ways)()
    script = last.script("too-deep", (Turn((Tools((refused, last.ordinary())), Say())),))
    for link in reversed(chain[1:-1]):
        script = link.script("link", (Turn((Tools((_agent(link, script),)), Say())),))
    return draw.about(Tools((_agent(draw, script),)))


def _background(draw: Drawing) -> tuple[Turn, ...]:
    draw.interactive = draw.stream.chance(0.5)
    children = [_worker(draw), *([_fast(draw)] if draw.stream.chance(0.5) else [])]
    calls = tuple(_agent(draw, child, background=True) for child in children)
    first = Turn((Tools(calls), *draw.padding(1), Tools((draw.slow(),)), Say()))
    if not draw.interactive:
        return (first,)
    return (first, Turn((*draw.padding(), Say())))


def _handback(draw: Drawing) -> tuple[Turn, ...]:
    child = draw.below()
    reports = [_report(child, number) for number in range(1, child.stream.between(1, 2) + 1)]
    script = child.script(
        "reporter", (Turn((Tools(tuple(reports)), *child.padding(1), Tools((child.slow(),)), Say())),)
    )
    background = draw.stream.chance(0.4)
    # In the background it reports to somebody who may have ended.
    return draw.about(Tools((_agent(draw, script, background=background),)))


def _report(child: Drawing, number: int) -> Call:
    odd = child.stream.choice(_ODD) if child.stream.chance(0.3) else None
    return child.ask(Handback(f"report {number} of {child.task}", odd))


# -- orders and floods ----------------------------------------------------------------------------------------------


def _cancelled(draw: Drawing) -> tuple[Turn, ...]:
    moment = draw.stream.choice(("created", "begun", "timer", "question", "event", "agent", "group"))
    draw.interactive = moment == "begun" and draw.stream.chance(0.3)
    match moment:
        case "created":
            draw.plan("cancel", leases=(0.0, 2.0), when="created")
            return draw.about(Tools((draw.slow(),)))
        case "begun":
            draw.plan("cancel", leases=(0.0, 2.0), when="begun")
            return draw.about(Tools((draw.slow(),)), Tools((draw.slow(),)))
        case "timer":
            call = _timer(draw)
        case "question":
            call = _question(draw, None)
        case "event":
            call = _event(draw, comes=False)
        case "agent":
            call = _agent(draw, _worker(draw))
        case _:
            call = draw.ask(AgentGroup((_worker(draw), _fast(draw), _worker(draw))))
    draw.plan("cancel", leases=(0.0, 1.5), when="waiting")
    return draw.about(Tools((call,)))


def _closed(draw: Drawing) -> tuple[Turn, ...]:
    draw.interactive = True
    in_the_middle: tuple[Callable[[], Call], ...] = (
        draw.slow,
        lambda: _timer(draw),
        lambda: _question(draw, None),
        lambda: _agent(draw, _worker(draw)),
    )
    turns: list[Turn] = []
    questions = 0
    count = draw.stream.between(2, 3)
    for number in range(1, count):
        _answers(draw, number, questions)
        middle = draw.stream.choice(in_the_middle)()
        questions += isinstance(middle.asked, Question)
        draw.plan("close", number, leases=(0.0, 1.5), when=draw.stream.choice(("begun", "waiting")))
        turns.append(Turn((*draw.padding(1), Tools((middle,)), *draw.padding(1), Say())))
    _answers(draw, count, questions)
    return (*turns, Turn((*draw.padding(1), Tools((draw.ordinary(),)), Say())))


def _answers(draw: Drawing, turn: int, questions: int) -> None:
    """What was closed before it asked, asks in the next turn."""
    for _ in range(questions):
        draw.plan("answer", turn)


def _flood(draw: Drawing) -> tuple[Turn, ...]:
    slow = draw.slow()
    # The burst begins about when the work is done, each event right after the other.
    until = slow.arguments.seconds / draw.profile.lease_seconds
    for number in range(draw.profile.flood_events):
        leases = (0.5 * until, 1.2 * until) if number == 0 else (0.0, 0.0)
        kind = f"{draw.task} storm {number % 3}"
        draw.plan("event", leases=leases, event_kind=kind, payload={"n": number})
    return (Turn((Tools((slow,)), Tools((draw.ordinary(),)), Say())),)


WAITING_BUILDERS: Final[Mapping[Kind, Callable[[Drawing], tuple[Turn, ...]]]] = MappingProxyType(
    {
        Kind.TIMER: _timers,
        Kind.QUESTION: _questions,
        Kind.QUESTION_TIMEOUT: _question_timeout,
        Kind.EVENT: _events,
        Kind.AGENT: _agents,
        Kind.AGENT_FAST: lambda draw: draw.about(*(Tools((_agent(draw, _fast(draw)),)) for _ in range(2))),
        Kind.AGENT_FAILS: lambda draw: draw.about(Tools((_agent(draw, _failing(draw)),))),
        Kind.GROUP: _group,
        Kind.NESTED: _nested,
        Kind.TOO_DEEP: _too_deep,
        Kind.BACKGROUND: _background,
        Kind.HANDBACK: _handback,
        Kind.CANCELLED: _cancelled,
        Kind.CLOSED: _closed,
        Kind.FLOOD: _flood,
    }
)
"""How each of these kinds is drawn."""
