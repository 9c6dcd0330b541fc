"""What a script is made of: turns of steps, calls to tools, and what a call to one of the caller's tools asks.

Plain data. What may stand together is said in ``script_check``; how it travels, in ``script``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal

import msgspec

AGENT: Final = "scripted"
"""The agent that plays scripts; sub-agents are of the same kind."""


class BadScript(ValueError):
    """The script is not one this package can play and foretell; the message says which part and why."""


class Odd(Enum):
    """Text that stores and wires stumble over."""

    NUL = "nul"
    SURROGATE = "surrogate"
    RIGHT_TO_LEFT = "right_to_left"
    ASTRAL = "astral"
    CONTROLS = "controls"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a tool of this package does around its journal line, and what it promises about a second run."""

    retry_safe: bool = False
    recovers: bool = False
    waits: bool = False
    dies: bool = False
    fails: bool = False


TOOLS: Final = MappingProxyType(
    {
        "plain": ToolSpec(),
        "retry_safe": ToolSpec(retry_safe=True),
        "recoverable": ToolSpec(recovers=True),
        "slow": ToolSpec(waits=True),
        "slow_retry_safe": ToolSpec(waits=True, retry_safe=True),
        "killer": ToolSpec(dies=True),
        "killer_retry_safe": ToolSpec(dies=True, retry_safe=True),
        "killer_recoverable": ToolSpec(dies=True, recovers=True),
        "failing": ToolSpec(fails=True),
        "big_output": ToolSpec(),
    }
)
"""Every tool of this package, by name. All write one journal line per start."""


Gating = Literal["deny", "rewrite", "approve", "approve_rewritten", "refuse"]
"""What the scripted gate says of a call: it denies or rewrites it, or asks a person, who then approves it (as it is, or
as the gate rewrote it) or refuses it. People say the same of every call of a task."""

ASKS_A_PERSON: Final[frozenset[Gating]] = frozenset({"approve", "approve_rewritten", "refuse"})
REWRITES: Final[frozenset[Gating]] = frozenset({"rewrite", "approve_rewritten"})


class Arguments(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a call asks of its tool.

    ``tag`` names the call in log and journal, once in the whole workload. ``seconds``: how long ``slow``
    tools wait. ``dies_through_start``: a killer dies at its starts up to this one, ``dies`` its journal line.
    ``chars``: how long the output is. ``odd``: the model adds such a ``text`` to the input, and the output
    holds it too. ``gate``: what comes of the call before its first start, see ``Gating``; a gate that rewrites it sets
    ``rewritten``.
    """

    tag: str
    seconds: float = 0.0
    dies_through_start: int = 0
    dies: Literal["before", "after"] = "after"
    chars: int = 0
    odd: Odd | None = None
    text: str | None = None
    gate: Gating | None = None
    rewritten: bool = False


# -- what the tools that wait and delegate are asked for: the caller's tools, not this package's --------------------


class Agent(msgspec.Struct, frozen=True, omit_defaults=True, tag="agent", tag_field="asks"):
    """Delegate to a sub-agent, which plays ``child``; in the background, nobody waits for it."""

    child: Script
    background: bool = False


class AgentGroup(msgspec.Struct, frozen=True, tag="group", tag_field="asks"):
    """Delegate to several sub-agents at once, and wait for all."""

    children: tuple[Script, ...]


class Handback(msgspec.Struct, frozen=True, omit_defaults=True, tag="handback", tag_field="asks"):
    """Report to the task above, in the middle of the work. In scripts of sub-agents only. ``odd``: the report ends
    in such a text."""

    report: str
    odd: Odd | None = None


class Timer(msgspec.Struct, frozen=True, tag="timer", tag_field="asks"):
    """Sleep for so many seconds."""

    seconds: float


class Question(msgspec.Struct, frozen=True, omit_defaults=True, tag="question", tag_field="asks"):
    """Ask a person. Without ``timeout_seconds`` it is answered, sooner or later (see ``workload.answer_for``); with
    them, only by a scheduled answer, which may come too late. ``odd``: the question ends in such a text."""

    question: str
    timeout_seconds: float | None = None
    odd: Odd | None = None


class AwaitEvent(msgspec.Struct, frozen=True, omit_defaults=True, tag="event", tag_field="asks"):
    """Wait for something outside to happen. ``event_kind`` is this call's own, so that no other takes its event."""

    event_kind: str
    timeout_seconds: float | None = None


class Shell(msgspec.Struct, frozen=True, omit_defaults=True, tag="shell", tag_field="asks"):
    """Start a shell in the background, which writes ``lines`` lines into the journal (None: for ever), each
    ``every_seconds`` after the one before, and then exits with ``exit_code``. ``stubborn``: a grandchild in a session
    of its own, which ignores SIGTERM, writes beside it for ever. See ``jobs.py`` for the command."""

    lines: int | None
    every_seconds: float
    exit_code: int = 0
    stubborn: bool = False


class ReadJob(msgspec.Struct, frozen=True, tag="read_job", tag_field="asks"):
    """Read what a background shell has written. ``shell``: the tag of the call that started it."""

    shell: str


class StopJob(msgspec.Struct, frozen=True, tag="stop_job", tag_field="asks"):
    """Stop a background shell. ``shell``: the tag of the call that started it."""

    shell: str


class Cron(msgspec.Struct, frozen=True, omit_defaults=True, tag="cron", tag_field="asks"):
    """Be woken whenever this table is due, while the task rests between turns, until the entry is removed."""

    expression: str
    prompt: str
    zone: str = "UTC"


class StopCron(msgspec.Struct, frozen=True, tag="stop_cron", tag_field="asks"):
    """Remove an entry of the cron table. ``cron``: the tag of the call that made it."""

    cron: str


Asked = Agent | AgentGroup | Handback | Timer | Question | AwaitEvent | Shell | ReadJob | StopJob | Cron | StopCron

TOOL_OF: Final = MappingProxyType(
    {
        Agent: "Agent",
        AgentGroup: "AgentGroup",
        Handback: "SubagentHandback",
        Timer: "ScheduleWakeup",
        Question: "AskUser",
        AwaitEvent: "WaitForEvent",
        Shell: "Bash",
        ReadJob: "BashOutput",
        StopJob: "KillBash",
        Cron: "CronCreate",
        StopCron: "CronDelete",
    }
)
"""The names of the caller's tools."""


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tool call of a reply. ``asked`` None: to a tool of this package, with these arguments; otherwise to the
    caller's tool of that name, whose input is made of ``asked``, and of the arguments only the tag counts."""

    tool: str
    arguments: Arguments
    asked: Asked | None = None


def asking(tag: str, asked: Asked) -> Call:
    """A call that waits or delegates."""
    return Call(TOOL_OF[type(asked)], Arguments(tag), asked)


# -- steps ----------------------------------------------------------------------------------------------------------


class Tools(msgspec.Struct, frozen=True, tag="tools", tag_field="step"):
    """A reply that asks for these calls."""

    calls: tuple[Call, ...]


class Say(msgspec.Struct, frozen=True, omit_defaults=True, tag="say", tag_field="step"):
    """The final answer of the turn. ``chars``: at least as long as this."""

    odd: Odd | None = None
    chars: int = 0


class Fail(msgspec.Struct, frozen=True, omit_defaults=True, tag="fail", tag_field="step"):
    """The provider fails this many requests of the next model call; None: every one, so the turn fails."""

    times: int | None = None
    retryable: bool = True


class Kill(msgspec.Struct, frozen=True, tag="kill", tag_field="step"):
    """The model call kills its worker, each time it is made, so the turn fails."""


class Cut(msgspec.Struct, frozen=True, omit_defaults=True, tag="cut", tag_field="step"):
    """Replies cut at the output limit, so many in a row; None: for ever, so the turn fails."""

    times: int | None = None


class Empty(msgspec.Struct, frozen=True, omit_defaults=True, tag="empty", tag_field="step"):
    """Empty replies, so many in a row; None: for ever, so the turn ends without an answer."""

    times: int | None = None


Step = Tools | Say | Fail | Kill | Cut | Empty


class Turn(msgspec.Struct, frozen=True):
    """What the model does from one message to the end of its turn."""

    steps: tuple[Step, ...]


class Script(msgspec.Struct, frozen=True, omit_defaults=True):
    """A whole task. Interactive ones have a turn per ``turn n:`` message, others one. ``think_seconds``: how
    long each model call takes. ``task``: the task's id; of a sub-agent, whose id the runtime derives, a name.
    ``parks``: of a call whose outcome nobody can tell, a person is asked how to go on; otherwise the model is told."""

    task: str
    kind: str
    turns: tuple[Turn, ...]
    interactive: bool = False
    think_seconds: float = 0.0
    parks: bool = False


def ends_turn(step: Step) -> bool:
    """Whether nothing of the turn comes after this step."""
    match step:
        case Say() | Kill():
            return True
        case Fail(times=times) | Cut(times=times) | Empty(times=times):
            return times is None
        case Tools():
            return False


def calls_of(script: Script) -> Iterator[tuple[int, Call]]:
    """Every call of the task itself with the number of its turn, from 1, in order."""
    for number, turn in enumerate(script.turns, 1):
        for step in turn.steps:
            if isinstance(step, Tools):
                for call in step.calls:
                    yield number, call


def children_of(call: Call) -> tuple[Script, ...]:
    """The scripts of the sub-agents this call asks for, in the order of their birth."""
    match call.asked:
        case Agent(child=child):
            return (child,)
        case AgentGroup(children=children):
            return children
        case _:
            return ()


def tree_of(script: Script) -> Iterator[Script]:
    """The script and all that it delegates, the one above before those below, whether or not they can be born."""
    yield script
    for _, call in calls_of(script):
        for child in children_of(call):
            yield from tree_of(child)


def referred(asked: Asked | None) -> str | None:
    """The tag of the earlier call that a call is about; None: it is about none."""
    match asked:
        case ReadJob(shell=tag) | StopJob(shell=tag) | StopCron(cron=tag):
            return tag
        case _:
            return None


def is_background(call: Call) -> bool:
    """Whether nobody waits for what the call delegates."""
    return isinstance(call.asked, Agent) and call.asked.background
