"""Workloads and what is foretold of them, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from scripted_model.foretold import Foretold
from scripted_model.script import (
    Agent,
    AgentGroup,
    Arguments,
    Asked,
    AwaitEvent,
    Call,
    Cron,
    Cut,
    Empty,
    Fail,
    Handback,
    Kill,
    Question,
    ReadJob,
    Say,
    Script,
    Shell,
    Step,
    StopCron,
    StopJob,
    Timer,
    Tools,
    Turn,
    calls_of,
    children_of,
)
from scripted_model.workload import ScheduledMessage, ScriptedTask

TEXT_CHARS_SHOWN = 100
"""Longer texts are cut: this is for reading, the JSON has all."""


def render_task(task: ScriptedTask, messages: Iterable[ScheduledMessage], foretold: Foretold) -> Iterator[str]:
    """The lines that tell one task's story."""
    script = task.script
    shape = "interactive" if script.interactive else "one-shot"
    parks = ", asks a person when nobody knows what a call did" if script.parks else ""
    yield f"{task.id}  {shape}{parks}, due after {task.delay_seconds:g} s, thinks {script.think_seconds:g} s"
    said = list(messages)
    for number, turn in enumerate(script.turns, 1):
        for message in said:
            if message.turn == number and message.kind == "turn":
                yield f"  client   {_message(message)}"
        yield from _turn(number, turn)
        for message in said:
            if message.turn == number and message.kind != "turn":
                yield f"  client   meanwhile {_message(message)}"
    yield from _below(script)
    yield from _foretold(foretold)


def _turn(number: int, turn: Turn) -> Iterator[str]:
    for index, step in enumerate(turn.steps):
        head = f"turn {number}" if index == 0 else ""
        yield f"  {head:<8} {_step(step)}"


def _below(script: Script) -> Iterator[str]:
    """The sub-agents, each with its one turn in a line, those of one above the other's."""
    for _, call in calls_of(script):
        for child in children_of(call):
            yield f"  sub-agent {child.task}: {', then '.join(map(_step, child.turns[0].steps))}"
            yield from _below(child)


def _step(step: Step) -> str:
    match step:
        case Tools(calls=calls):
            return "calls " + ", ".join(map(_call, calls))
        case Say(odd=odd, chars=chars):
            odd_words = "" if odd is None else f" with {odd.value} text"
            return f"answers{odd_words}{f' in at least {chars} characters' if chars else ''}"
        case Fail(times=times, retryable=retryable):
            often = "at every attempt" if times is None else f"at {times} attempts, then goes on"
            return f"provider fails {often}{'' if retryable else ', and says not to retry'}"
        case Kill():
            return "model call kills its worker, every time"
        case Cut(times=times):
            return f"reply is cut {_often(times)}"
        case Empty(times=times):
            return f"reply is empty {_often(times)}"


def _often(times: int | None) -> str:
    return "for ever" if times is None else f"{times}x, then goes on"


def _call(call: Call) -> str:
    if call.asked is not None:
        return f"{call.tool}({call.arguments.tag} {_asked(call.asked)})"
    fields: dict[str, object] = msgspec.to_builtins(call.arguments)
    tag = fields.pop("tag")
    if call.arguments.dies_through_start and call.arguments.dies == Arguments("").dies:
        fields["dies"] = call.arguments.dies
    details = " ".join(f"{name}={value}" for name, value in fields.items())
    return f"{call.tool}({tag}{f' {details}' if details else ''})"


def _asked(asked: Asked) -> str:
    match asked:
        case Agent(child=child, background=background):
            return f"to {child.task}{' in the background' if background else ''}"
        case AgentGroup(children=children):
            return f"to {' and '.join(child.task for child in children)}"
        case Handback(report=report):
            return f"reports {_short(report)}"
        case Timer(seconds=seconds):
            return f"for {seconds:g} s"
        case Question(question=question, timeout_seconds=limit):
            return f"asks {_short(question)}{_limit(limit)}"
        case AwaitEvent(event_kind=kind, timeout_seconds=limit):
            return f"for {_short(kind)}{_limit(limit)}"
        case Shell(lines=lines, every_seconds=pause, exit_code=code, stubborn=stubborn):
            often = "for ever" if lines is None else f"{lines}x, then exits with {code}"
            beside = ", and a stubborn grandchild beside it" if stubborn else ""
            return f"writes a line every {pause:g} s {often}{beside}"
        case ReadJob(shell=tag) | StopJob(shell=tag):
            return f"of {tag}"
        case Cron(expression=expression, zone=zone, prompt=prompt):
            return f"at {_short(expression)} in {zone} says {_short(prompt)}"
        case StopCron(cron=tag):
            return f"of {tag}"


def _limit(seconds: float | None) -> str:
    return "" if seconds is None else f" for at most {seconds:g} s"


def _message(message: ScheduledMessage) -> str:
    again = "" if message.posts == 1 else f", posted {message.posts}x under one key"
    return f"{_deed(message)} after {message.delay_seconds:g} s{again}"


def _deed(message: ScheduledMessage) -> str:
    seen = {"created": "at once", "begun": "once it has begun", "waiting": "once it waits"}[message.when]
    match message.kind:
        case "turn" | "note":
            return f"says {_short(message.text)}"
        case "answer":
            return "answers the question it waits for"
        case "decision":
            return f"says {_short(message.text)} to the call that waits for it"
        case "event":
            payload = msgspec.json.encode(message.payload).decode()
            return f"sends {_short(message.event_kind)} with {_short(payload)} {seen},"
        case "cancel":
            return f"cancels it {seen},"
        case "close":
            return f"closes the turn {seen},"


def _foretold(foretold: Foretold) -> Iterator[str]:
    ending = foretold.outcome if foretold.reason is None else f"{foretold.outcome} ({foretold.reason})"
    yield f"  foretold {ending}, answer {'none' if foretold.answer is None else _short(foretold.answer)}"
    calls = ", ".join(f"{tool} {count}" for tool, count in foretold.calls_per_tool.items())
    others = [f"{call.tag} {call.source}" for call in foretold.calls if call.source != "ran"]
    yield f"           calls: {calls or 'none'}{'; ' if others else ''}{', '.join(others)}"
    if foretold.cancel_keys:
        yield f"           unless a cancel is accepted before: then {' or '.join(_cancelled(foretold))}"
    if foretold.descendants:
        yield f"           sub-agents born: {', '.join(child.name for child in foretold.descendants)}"
    if foretold.jobs or foretold.crons:
        names = [one.tag for one in foretold.jobs] + [one.tag for one in foretold.crons]
        yield f"           goes on in the background: {', '.join(names)}"
    if foretold.bounds or foretold.deaths:
        bounds = ", ".join(foretold.bounds) or "none"
        yield f"           by itself kills {foretold.deaths} workers, reaches bounds: {bounds}"


def _cancelled(foretold: Foretold) -> list[str]:
    return sorted(foretold.outcomes(foretold.cancel_keys))


def _short(text: str) -> str:
    cut = text if len(text) <= TEXT_CHARS_SHOWN else f"{text[:TEXT_CHARS_SHOWN]}…"
    return ascii(cut)
