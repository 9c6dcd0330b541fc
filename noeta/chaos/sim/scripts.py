"""The fixed small set of scripts that the exhaustive search plays: each kind of trouble once, and nothing else.

Small on purpose: a search that strikes at every yield point costs the square of a script's length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scripted_model.foretell import Foretold, foretell
from scripted_model.script import Arguments, Call, Cut, Empty, Fail, Kill, Odd, Say, Script, Step, Tools, Turn
from scripted_model.words import note_message, turn_message
from scripted_model.workload import ScheduledMessage, ScriptedTask

if TYPE_CHECKING:
    from noeta.chaos.sim.cast import Cast

LEASE_SECONDS: Final = 10.0
RETRY_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Case:
    """What one execution plays. ``says``: its messages may come at any moment without changing what is foretold,
    so the search posts them at every yield point, too. ``unresolved``: so many times per task, its engine cannot be
    had at first."""

    name: str
    tasks: tuple[ScriptedTask, ...]
    messages: tuple[ScheduledMessage, ...] = ()
    says: bool = False
    unresolved: int = 0

    def cast(self) -> Cast:
        """Who plays it, anew."""
        from noeta.chaos.sim.cast import ScriptedCast

        return ScriptedCast(self)

    def foretold(self) -> tuple[Foretold, ...]:
        """What must come of every task."""
        return tuple(
            foretell(task, [m for m in self.messages if m.task == task.id], retry_attempts=RETRY_ATTEMPTS)
            for task in self.tasks
        )


def call(tool: str, **more: Any) -> Call:
    """A tool call; its tag is given when the script is built."""
    return Call(tool, Arguments("", **more))


def calls(*tools: str) -> Tools:
    """One reply that calls these tools."""
    return Tools(tuple(call(tool) for tool in tools))


def script(name: str, *turns: Turn, is_interactive: bool = False, think: float = 0.0, parks: bool = False) -> Script:
    """A script whose calls are tagged by their place."""
    place = count(1)
    tagged = tuple(Turn(tuple(_tagged(step, name, place) for step in turn.steps)) for turn in turns)
    return Script(name, name, tagged, is_interactive, think, parks)


def one_shot(name: str, *steps: Step, think: float = 0.0, parks: bool = False) -> Case:
    """A case of one task with one turn."""
    return Case(name, (ScriptedTask(name, script(name, Turn(steps), think=think, parks=parks)),))


def killer(name: str, tool: str, through: int, dies: str) -> Case:
    """A case of one task that kills its own worker in a tool."""
    return one_shot(name, Tools((call(tool, dies_through_start=through, dies=dies),)), Say())


def interactive(name: str, *turns: Turn, notes: tuple[tuple[int, float], ...] = (), says: bool = False) -> Case:
    """A case of one task with several turns. ``notes``: (turn, delay in seconds) of messages beside the course."""
    task = ScriptedTask(name, script(name, *turns, is_interactive=True))
    messages: list[ScheduledMessage] = []
    for turn in range(1, len(turns) + 1):
        if turn > 1:
            number = len(messages) + 1
            messages.append(ScheduledMessage(name, number, "turn", turn, turn_message(turn, name), posts=2))
        for _, delay in (note for note in notes if note[0] == turn):
            number = len(messages) + 1
            text = note_message(number, name)
            messages.append(ScheduledMessage(name, number, "note", turn, text, delay))
    return Case(name, (task,), tuple(messages), says)


def noted(name: str, *steps: Step, delay: float) -> Case:
    """A one-shot task to which somebody says something, perhaps too late."""
    case = one_shot(name, *steps)
    message = ScheduledMessage(name, 1, "note", 1, note_message(1, name), delay, may_be_refused=True)
    return Case(name, case.tasks, (message,), says=True)


def _tagged(step: Step, name: str, place: Iterator[int]) -> Step:
    if not isinstance(step, Tools):
        return step
    change = msgspec.structs.replace
    return Tools(tuple(change(c, arguments=change(c.arguments, tag=f"{name}#{next(place)}")) for c in step.calls))


_TWO: Final = (one_shot("two-a", calls("plain"), Say()), one_shot("two-b", calls("retry_safe"), Say()))

_CASES: Final = (
    one_shot("plain", calls("plain"), calls("plain"), Say()),
    interactive(
        "interactive",
        Turn((Tools((call("slow", seconds=2.0),)), Say())),
        Turn((calls("plain", "retry_safe"), Say())),
        notes=((1, 1.0), (2, 5.0)),
        says=True,
    ),
    one_shot("retry-safe", calls("retry_safe"), Say()),
    one_shot("recoverable", calls("recoverable"), Say()),
    one_shot("slow", Tools((call("slow", seconds=1.5 * LEASE_SECONDS),)), Say(), think=0.5),
    one_shot("slow-retry-safe", Tools((call("slow_retry_safe", seconds=0.8 * LEASE_SECONDS),)), Say()),
    one_shot("several", calls("plain", "retry_safe", "recoverable", "failing"), calls("plain", "big_output"), Say()),
    one_shot("odd-text", Tools((call("plain", odd=Odd.SURROGATE), call("failing", odd=Odd.NUL))), Say(Odd.SURROGATE)),
    killer("killer-plain-before", "killer", 1, "before"),
    killer("killer-plain-after", "killer", 1, "after"),
    killer("killer-retry-safe", "killer_retry_safe", 2, "after"),
    killer("killer-bound", "killer_retry_safe", 3, "before"),
    killer("killer-recoverable", "killer_recoverable", 1, "after"),
    killer("killer-recoverable-before", "killer_recoverable", 1, "before"),
    one_shot("killer-model", calls("plain"), Kill()),
    one_shot("errors-below", Fail(2), calls("plain"), Fail(1), Say()),
    one_shot("errors-bound", calls("plain"), Fail()),
    one_shot("errors-refused", Fail(None, retryable=False)),
    one_shot("cut-below", Cut(2), calls("plain"), Say()),
    one_shot("cut-bound", calls("plain"), Cut()),
    one_shot("empty", Empty(1), calls("plain"), Empty()),
    Case("two-tasks", (*_TWO[0].tasks, *_TWO[1].tasks)),
    noted("noted", Tools((call("slow", seconds=2.0),)), Say(), delay=1.0),
    noted("noted-late", calls("plain"), Say(), delay=30.0),
    interactive("interactive-short", Turn((Say(),)), Turn((calls("retry_safe"), Say())), says=True),
    interactive(
        "interactive-hurt", Turn((calls("plain"), Cut())), Turn((Fail(),)), Turn((calls("recoverable"), Say()))
    ),
    interactive("interactive-killer", Turn((calls("plain"), Kill())), Turn((Say(),))),
    replace(one_shot("unresolved", calls("plain"), Say()), unresolved=2),
)

WORKING_CASES: Final = MappingProxyType({case.name: case for case in _CASES})
"""Those that only work and talk, by name, in the order in which the table shows them; `waiting_scripts.py` has the
rest, and `cases.py` all of them."""
