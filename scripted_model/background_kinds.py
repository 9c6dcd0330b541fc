"""How scripts are drawn of tasks that work in the background, are woken by a cron table, ask first, or are parked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from noeta.core.texts import APPROVE
from noeta.core.tool import MAX_ATTEMPTS
from scripted_model.drawing import Drawing
from scripted_model.profile import Kind
from scripted_model.script import (
    ASKS_A_PERSON,
    Agent,
    AwaitEvent,
    Call,
    Cron,
    Gating,
    Question,
    ReadJob,
    Say,
    Script,
    Shell,
    StopCron,
    StopJob,
    Timer,
    Tools,
    Turn,
)
from scripted_model.workload import REFUSAL

MINUTELY: Final = "* * * * *"
"""The finest that a cron table can say: whoever waits for it waits for up to a minute."""

# -- background shells ----------------------------------------------------------------------------------------------


def _ending(draw: Drawing) -> Call:
    """A shell that ends by itself, well or badly; sometimes a grandchild of it would not."""
    return draw.ask(
        Shell(
            draw.stream.between(1, 8),
            draw.span(draw.profile.shell_leases),
            draw.stream.choice((0, 0, 3)),
            stubborn=draw.stream.chance(0.3),
        )
    )


def _endless(draw: Drawing) -> Call:
    return draw.ask(Shell(None, draw.span(draw.profile.shell_leases), stubborn=draw.stream.chance(0.5)))


def _stop(draw: Drawing, shell: Call) -> Call:
    return draw.ask(StopJob(shell.arguments.tag))


def _job(draw: Drawing) -> tuple[Turn, ...]:
    return draw.about(Tools((_ending(draw),)), Tools((draw.slow(),)), Tools((draw.slow(),)))


def _job_wakes(draw: Drawing) -> tuple[Turn, ...]:
    draw.interactive = True
    draw.turn_leases[2] = (0.0, 3.0)
    return (
        Turn((*draw.padding(1), Tools((_ending(draw),)), Say())),
        Turn((*draw.padding(1), Say())),
    )


def _job_below(draw: Drawing) -> tuple[Turn, ...]:
    """A sub-agent that starts a shell and ends at once, and one that goes on for a while."""
    children = []
    for _ in range(draw.stream.between(1, 2)):
        child = draw.below()
        shell = _endless(child) if child.stream.chance(0.5) else _ending(child)
        work = [Tools((child.slow(),))] if child.stream.chance(0.4) else []
        children.append(child.script("sheller", (Turn((Tools((shell,)), *work, Say())),)))
    return draw.about(*(Tools((draw.ask(Agent(child, draw.stream.chance(0.3))),)) for child in children))


def _job_several(draw: Drawing) -> tuple[Turn, ...]:
    shells = [_ending(draw), _endless(draw), *(_ending(draw) for _ in range(draw.stream.between(0, 2)))]
    return draw.about(Tools(tuple(draw.stream.shuffled(shells))), Tools((draw.slow(), draw.ordinary())))


def _job_calls(draw: Drawing) -> tuple[Turn, ...]:
    draw.interactive = draw.stream.chance(0.5)
    shell = _endless(draw)
    tag = shell.arguments.tag
    first = [Tools((shell,)), Tools((draw.slow(),)), Tools((draw.ask(ReadJob(tag)), draw.ordinary()))]
    last = [Tools((draw.ask(ReadJob(tag)),)), Tools((_stop(draw, shell),))]
    if not draw.interactive:
        return (Turn((*first, *last, Say())),)
    return (Turn((*first, Say())), Turn((*draw.padding(1), *last, Say())))


def _kept(draw: Drawing) -> tuple[Turn, ...]:
    """Waits for everything there is, with a shell running, so that its worker keeps the claim."""
    shell = _endless(draw)
    kind = f"news for {draw.next_tag}"
    waits: dict[str, Callable[[], Call]] = {
        "timer": lambda: draw.ask(Timer(draw.span(draw.profile.wait_leases))),
        "question": lambda: draw.ask(Question(f"which way at {draw.next_tag}?")),
        "event": lambda: draw.ask(AwaitEvent(kind)),
        "child": lambda: draw.ask(Agent(_beside(draw))),
    }
    what = draw.stream.choice(tuple(waits))
    wait = waits[what]()
    if what == "question":
        draw.plan("answer", needed=True)
    if what == "event":
        draw.plan("event", needed=True, when="waiting", event_kind=kind)
    if draw.stream.chance(0.5):
        return draw.about(Tools((shell, wait)))
    return draw.about(Tools((shell,)), Tools((wait,)), Tools((_stop(draw, shell),)))


def _beside(draw: Drawing) -> Script:
    child = draw.below()
    return child.script("beside", (Turn((Tools((child.slow(),)), Say())),))


# -- cron tables ----------------------------------------------------------------------------------------------------


def _cron(draw: Drawing) -> tuple[Turn, ...]:
    draw.interactive = True
    low, high = draw.profile.cron_seconds
    draw.turn_leases[2] = (low / draw.profile.lease_seconds, high / draw.profile.lease_seconds)
    cron = draw.ask(Cron(MINUTELY, f"look around, {draw.next_tag}"))
    return (
        Turn((*draw.padding(1), Tools((cron,)), Say())),
        Turn((Tools((draw.ask(StopCron(cron.arguments.tag)),)), Say())),
    )


# -- gates and parks ------------------------------------------------------------------------------------------------


def _gated(draw: Drawing, *gates: Gating) -> Call:
    gate = draw.stream.choice(gates)
    if gate in ASKS_A_PERSON:
        draw.plan("decision", needed=True, text=REFUSAL if gate == "refuse" else APPROVE)
    return draw.call(draw.stream.choice(("plain", "retry_safe", "recoverable")), gate=gate)


def _approval(draw: Drawing) -> tuple[Turn, ...]:
    # The same each time: a client that remembers nothing could not tell which of them it is asked about.
    gates: tuple[Gating, ...] = ("refuse",) if draw.stream.chance(0.4) else ("approve", "approve_rewritten")
    calls = [_gated(draw, *gates)]
    if draw.stream.chance(0.5):
        calls.append(draw.slow())
    again = [Tools((_gated(draw, *gates),))] if draw.stream.chance(0.3) else []
    return draw.about(Tools(tuple(calls)), *again)


def _by_the_gate(draw: Drawing) -> tuple[Turn, ...]:
    return draw.about(Tools((_gated(draw, "deny", "rewrite"), draw.ordinary())), Tools((_gated(draw, "rewrite"),)))


def _parked(draw: Drawing) -> tuple[Turn, ...]:
    """Slow work that is interrupted by somebody else's faults, if at all: parked, or started again."""
    draw.parks = True
    return draw.about(Tools((draw.slow("slow"),)), Tools((draw.slow("slow_retry_safe"),)), Tools((draw.slow("slow"),)))


def _parked_killer(draw: Drawing) -> tuple[Turn, ...]:
    """Kills its own worker, and is parked then: nobody can tell, the bound is reached, or a person was asked before."""
    draw.parks = True
    match draw.stream.choice(("plain", "bound", "gated")):
        case "plain":
            return draw.about(Tools((draw.killer("killer", 1),)))
        case "bound":
            return draw.about(Tools((draw.killer("killer_retry_safe", MAX_ATTEMPTS),)))
        case _:
            draw.plan("decision", needed=True, text=APPROVE)
            dies = draw.stream.choice(("before", "after"))
            call = draw.call("killer_retry_safe", dies_through_start=1, dies=dies, gate="approve")
            return (Turn((Tools((call,)), *draw.padding(), Say())),)


BACKGROUND_BUILDERS: Final[Mapping[Kind, Callable[[Drawing], tuple[Turn, ...]]]] = MappingProxyType(
    {
        Kind.JOB: _job,
        Kind.JOB_WAKES: _job_wakes,
        Kind.JOB_OUTLIVES: lambda draw: draw.about(Tools((_endless(draw),)), *draw.padding()),
        Kind.JOB_BELOW: _job_below,
        Kind.JOB_SEVERAL: _job_several,
        Kind.JOB_CALLS: _job_calls,
        Kind.KEPT: _kept,
        Kind.CRON: _cron,
        Kind.APPROVAL: _approval,
        Kind.GATED: _by_the_gate,
        Kind.PARKED: _parked,
        Kind.PARKED_KILLER: _parked_killer,
    }
)
"""How each of these kinds is drawn."""
