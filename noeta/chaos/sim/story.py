"""Tells one simulated execution so that somebody who never saw this project can follow it, in at most fifteen lines.

Who played, what happened in its order (who took the task, what was written, what struck), which promise was broken and
how. Times are virtual seconds since the execution began.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from invariants import Anomaly, explain
from invariants.evidence import Attempt, Foretold, Sample
from invariants.explain import LINES_MAX
from noeta.chaos.schedule import Kind, Schedule
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.scheduler import WALL_START
from noeta.chaos.sim.server import MakeStore
from noeta.chaos.sim.shrink_order import strikes_in
from noeta.chaos.sim.strikes import SPARE
from noeta.chaos.sim.watch import Passing, Struck, Watched, watch
from noeta.core.events import TaskCreated
from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.task import Status
from noeta.core.wake import ANY_WAIT, condition_key
from scripted_model.script import (
    Agent,
    AgentGroup,
    AwaitEvent,
    BadScript,
    Call,
    Cron,
    Cut,
    Empty,
    Fail,
    Gating,
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
    from_goal,
)

STRIKES_SHOWN: Final = 4
"""Strikes that are told; a shrunk schedule has at most three."""

CLAIMS_SHOWN: Final = 3
"""Of the claims the nearest to what went wrong: who held the task then, and who before."""

STRIKE: Final = 2
CLAIM: Final = 1
"""What a moment weighs that says who could act at all."""

BY_SCRIPT: Final = "script"
"""The kind of a death that a script brings about; no schedule names it."""

LINE_CHARS_MAX: Final = 300

_CLOCK: Final = re.compile(r"\b22:(\d\d):(\d\d\.\d{6})\b")
"""The store's time of day as the laws print it: every simulation begins at the same instant, 22:13:55 UTC."""

_BEGINS: Final = 13 * 60 + 55

_SUCH: Final[Mapping[Kind, str]] = {
    Kind.KILL: "was killed (SIGKILL)",
    Kind.PAUSE: "stood still for {seconds:g} s (SIGSTOP)",
    Kind.TERMINATE: "was told to stop (SIGTERM)",
    Kind.STORE_UNAVAILABLE: "could not reach the store",
    Kind.UNKNOWN_LOST: "lost its connection: the call never arrived",
    Kind.UNKNOWN_LANDED: "lost its connection: the call arrived, its answer did not",
    Kind.UNKNOWN_LATER: "lost its connection: the call arrived {seconds:g} s later, unanswered",
    Kind.SLOW: "made a call that took {seconds:g} s to arrive",
    Kind.SAY: "had to hear the client's next message",
}


_GATED: Final[Mapping[Gating | None, str]] = {
    "deny": ", which the gate denies",
    "rewrite": ", which the gate rewrites",
    "approve": ", which a person approves",
    "approve_rewritten": ", which a person approves as the gate rewrites it",
    "refuse": ", which a person refuses",
}


class Moment(NamedTuple):
    """Something that happened. ``at``: virtual microseconds. ``weight``: the heaviest are told first."""

    at: int
    text: str
    weight: int = 0

    def told(self) -> str:
        """As a line."""
        return f"  {self.at / MICROS_PER_SECOND:9.3f} s  {self.text}"


def story(result: Result, law: str | None = None, *, make_store: MakeStore | None = None) -> list[str]:
    """The story of this execution, which is played again to be watched.

    Args:
        law: which of the broken ones to tell; None, or one that holds: the first.
    """
    seen = watch(result.schedule, make_store=make_store)
    law = law if law in seen.result.convicted else None
    anomaly = _anomaly_of(seen.result, law)
    ends = _ends(seen.result, anomaly, law)
    task = _task_of(seen, anomaly)
    begins = [_played(result.schedule), *_scripts(seen, task)]
    room = LINES_MAX - len(begins) - len(ends)
    moments = _chosen(list(_moments(seen, task)), _instants(anomaly), room)
    lines = [*begins, *(moment.told() for moment in moments), *ends]
    return [_cut(line) for line in lines]


# -- what was played -----------------------------------------------------------------------------------------------


def _played(schedule: Schedule) -> str:
    play = schedule.play
    assert play is not None
    strikes = _counted(len(strikes_in(schedule)), "fault").replace("0 faults", "no fault")
    what = f"the app {play.app}" if play.app is not None else _counted(len(play.tasks), "agent task")
    said = f", {_counted(len(play.messages), 'message')} by a client" if play.messages else ""
    return f"Played: {what} on {_counted(play.workers, 'worker')}{said}, {strikes}; times are virtual seconds."


def _scripts(seen: Watched, task: str | None) -> Iterator[str]:
    """The course of the task that the story is about: of a sub-agent, as its goal has it."""
    play = seen.result.schedule.play
    assert play is not None
    for one in play.tasks:
        if one.id == task:
            yield f"Its script has {one.id} {_course(one.script)}."
        elif task is not None and task.startswith(f"{one.id}."):
            script = _script_below(seen, task)
            if script is not None:
                yield f"Its script has {task}, a sub-agent below {one.id}, {_course(script)}."


def _script_below(seen: Watched, task: str) -> Script | None:
    """What a sub-agent was asked to play; None: that stands nowhere."""
    log = [one.event for one in seen.execution.log if one.task == task]
    goal = next((event.goal for event in log if isinstance(event, TaskCreated)), "")
    try:
        return from_goal(goal)
    except BadScript:
        return None


def _course(script: Script) -> str:
    return "; in its next turn ".join(", then ".join(map(_step, turn.steps)) for turn in script.turns)


def _step(step: Step) -> str:
    match step:
        case Tools(calls=calls):
            return " and ".join(map(_call, calls))
        case Say():
            return "answer"
        case Fail(times=times):
            return f"see its model fail {_times(times)}"
        case Cut(times=times):
            return f"get replies cut short {_times(times)}"
        case Empty(times=times):
            return f"get empty replies {_times(times)}"
        case Kill():
            return "kill its worker in a model call"


def _call(call: Call) -> str:
    match call.asked:
        case None:
            return f"call {call.tool}{_GATED.get(call.arguments.gate, '')}"
        case Agent(child=child, background=background):
            return f"delegate{' in the background' if background else ''} ({_course(child)})"
        case AgentGroup(children=children):
            return f"delegate to a group ({' | '.join(map(_course, children))})"
        case Handback():
            return "report to its parent"
        case Timer(seconds=seconds):
            return f"sleep for {seconds:g} s"
        case Question(timeout_seconds=limit):
            return f"ask a person{_limit(limit)}"
        case AwaitEvent(event_kind=kind, timeout_seconds=limit):
            return f"await {kind!a}{_limit(limit)}"
        case Shell(lines=lines, exit_code=code):
            until = (
                "runs until it is stopped" if lines is None else f"writes {_counted(lines, 'line')} and exits {code}"
            )
            return f"start a background shell that {until}"
        case ReadJob():
            return "read what its background shell wrote"
        case StopJob():
            return "stop its background shell"
        case Cron(expression=expression):
            return f"be woken at {expression!a}"
        case StopCron():
            return "be woken by its cron table no more"


def _limit(seconds: float | None) -> str:
    return "" if seconds is None else f" for at most {seconds:g} s"


# -- what happened -------------------------------------------------------------------------------------------------


def _moments(seen: Watched, task: str | None) -> Iterator[Moment]:
    """Everything about this task, in order of time."""
    strikes = [_strike(struck) for struck in seen.struck]
    told = [*strikes, *_own_deaths(seen), *_rows(seen, task), *_effects(seen, task), *_posts(seen, task)]
    yield from sorted(told, key=lambda moment: moment.at)


def _strike(struck: Struck) -> Moment:
    fault = struck.fault
    such = _SUCH[fault.kind].format(seconds=fault.seconds("seconds") if "seconds" in fault.args else 0.0)
    spare = "; another worker started" if SPARE in fault.args else ""
    later = fault.args.get("respawn_seconds")
    spare = f"; its successor came {later:g} s later" if later else spare
    passing = struck.passing
    return Moment(passing.at, f"! {passing.process} {such} at {_place(passing)}{spare}", STRIKE)


def _own_deaths(seen: Watched) -> Iterator[Moment]:
    for fault in seen.execution.faults:
        if fault.kind == BY_SCRIPT:
            yield Moment(fault.at - WALL_START, f"! {fault.process} was killed by what its own script does", STRIKE)


def _place(passing: Passing) -> str:
    facts = passing.facts
    of = f" of {facts['task']}" if facts.get("task") else ""
    seq = f" seq {facts['seq']} ({facts['events']})" if facts.get("events") else ""
    return f"{passing.point}{of}{seq}"


def _rows(seen: Watched, task: str | None) -> Iterator[Moment]:
    """Claims, appends, and what came for the task, as its row shows them."""
    before: Sample | None = None
    said = {one.number for one in seen.execution.client.sent if one.task == task}
    for row in seen.execution.server.samples:
        if row.task != task:
            continue
        at = row.at - WALL_START
        ended_alone = before is not None and row.epoch != before.epoch and row.status is Status.TERMINAL
        for number in range(before.inbox_seq + 1 if before is not None else 1, row.inbox_seq + 1):
            if number not in said:
                yield Moment(at, f"item {number} is there for {task}, by another task or by the clock")
        if ended_alone:
            yield Moment(at, f"{task} ended while nobody ran it, as epoch {row.epoch}", CLAIM)
        elif before is None or row.epoch != before.epoch:
            if row.epoch:
                yield Moment(at, f"{row.worker or 'nobody'} took {task}, as epoch {row.epoch}", CLAIM)
            else:
                yield Moment(at, f"{task} was created")
        if before is not None and row.last_seq != before.last_seq and not ended_alone:
            yield Moment(at, _appended(seen.passings, before, row, at))
        before = row


def _appended(passings: Sequence[Passing], before: Sample, row: Sample, at: int) -> str:
    """Who wrote: the last that was about to append there."""
    first = before.last_seq + 1
    of = [one for one in passings if one.point == "append.before" and one.facts["task"] == row.task and one.at <= at]
    sent = [one for one in of if one.facts["seq"] == first]
    what = f"{sent[-1].facts['events']}" if sent else f"up to seq {row.last_seq}"
    waits = f" on {condition_key(row.wake_on)}" if row.wake_on is not None else ""
    ends = f"; {row.task} is {row.status.value}{waits}" if row.status is not before.status else ""
    return f"{sent[-1].process if sent else 'somebody'} wrote seq {first} {what}{ends}"


def _effects(seen: Watched, task: str | None) -> Iterator[Moment]:
    for line in seen.execution.cast.journal():
        if line.task == task:
            yield Moment(line.at, f"{line.worker} ran the tool {line.tool}: start {line.start} of call {line.call}")


def _posts(seen: Watched, task: str | None) -> Iterator[Moment]:
    for attempt in seen.execution.client.sent:
        if attempt.task == task:
            number = "" if attempt.number is None else f" as number {attempt.number}"
            how = "ordered" if attempt.wakes == ANY_WAIT else "said"
            words = f"the client {how} {attempt.key} to {task}: {attempt.outcome}{number}"
            yield Moment(attempt.at - WALL_START, words)


def _chosen(moments: Sequence[Moment], instants: Sequence[int], room: int) -> list[Moment]:
    """The strikes, the last claims, and what is nearest to the instants that the anomaly speaks of, in order."""
    goals = instants or [moment.at for moment in moments[-1:]]
    by_nearness = sorted(moments, key=lambda moment: min(abs(moment.at - goal) for goal in goals))
    kept = [one for one in moments if one.weight == STRIKE][:STRIKES_SHOWN]
    kept += [one for one in by_nearness if one.weight == CLAIM][:CLAIMS_SHOWN]
    kept += [one for one in by_nearness if not one.weight]
    return sorted(kept[:room], key=lambda moment: moment.at)


# -- what was broken -----------------------------------------------------------------------------------------------


def _anomaly_of(result: Result, law: str | None) -> Anomaly | None:
    return next((one for one in result.report.anomalies() if law in (None, one.law)), None)


def _ends(result: Result, anomaly: Anomaly | None, law: str | None) -> list[str]:
    if anomaly is not None:
        return [_since_the_beginning(line) for line in explain(anomaly).splitlines()[:4]]
    findings = [finding for finding in result.findings if law is None or finding.startswith(f"{law}:")]
    return [f"{finding.partition(':')[0]} is broken:{finding.partition(':')[2]}" for finding in findings[:2]] or [
        f"nothing is broken: the verdict is {result.verdict.value}"
    ]


def _task_of(seen: Watched, anomaly: Anomaly | None) -> str | None:
    """The task of the anomaly; of a finding that names none, the one that was written to last."""
    if anomaly is not None:
        return anomaly.task
    samples = seen.execution.server.samples
    return samples[-1].task if samples else None


def _instants(anomaly: Anomaly | None) -> list[int]:
    """When it happened, by the store's clock."""
    facts = () if anomaly is None else anomaly.witnesses
    told = [fact.at - WALL_START for fact in facts if not isinstance(fact, Attempt | Foretold) and hasattr(fact, "at")]
    return [at for at in told if at >= 0] + [fact.sent_at for fact in facts if isinstance(fact, Attempt)]


def _since_the_beginning(line: str) -> str:
    """The line with times of day as virtual seconds, as all others have them."""

    def seconds(found: re.Match[str]) -> str:
        return f"{int(found[1]) * 60 + float(found[2]) - _BEGINS:g} s"

    return _CLOCK.sub(seconds, line)


def _times(times: int | None) -> str:
    return "for ever" if times is None else "once" if times == 1 else f"{times} times"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _cut(line: str) -> str:
    return line if len(line) <= LINE_CHARS_MAX else f"{line[: LINE_CHARS_MAX - 3]}..."
