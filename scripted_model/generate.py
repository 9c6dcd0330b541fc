"""From a seed to a workload: the same bytes in every process, Python version and hash seed.

Each task is drawn from a stream of its own, named by its place, so a change to one task changes no other.
"""

from __future__ import annotations

from collections.abc import Iterator

from noeta.core.limits import DELAY_SECONDS_MAX
from scripted_model.kinds import BUILDERS, INTERACTIVE_KINDS, Drawing
from scripted_model.profile import Kind, Profile
from scripted_model.script import Odd, Script
from scripted_model.seeds import Stream
from scripted_model.words import note_message, turn_message
from scripted_model.workload import ScheduledMessage, ScriptedTask, Workload

TASKS_MAX = 100_000
"""More tasks than any one run loads."""

# A lone surrogate cannot be posted: a client's text is checked where it comes in, with an error.
_MESSAGE_ODD = (Odd.NUL, Odd.RIGHT_TO_LEFT, Odd.ASTRAL, Odd.CONTROLS)


def workload(seed: int | str, tasks: int, profile: Profile | None = None, *, prefix: str = "t") -> Workload:
    """The workload of a seed. With as many tasks as kinds, or more, every kind is there at least once.

    ``prefix`` begins each task's id, so that several workloads fit one store.

    Raises:
        ValueError: ``tasks`` is not from 1 to ``TASKS_MAX``.
    """
    if not 1 <= tasks <= TASKS_MAX:
        raise ValueError(f"tasks: from 1 to {TASKS_MAX}, found {tasks}")
    profile = profile or Profile()
    drawn: list[ScriptedTask] = []
    messages: list[ScheduledMessage] = []
    for place, kind in enumerate(_kinds(seed, tasks, profile)):
        task, said = _task(seed, f"{prefix}{place:03d}-{kind.value}", place, kind, profile)
        drawn.append(task)
        messages.extend(said)
    return Workload(str(seed), profile.lease_seconds, profile.retry_attempts, tuple(drawn), tuple(messages))


def _kinds(seed: int | str, tasks: int, profile: Profile) -> list[Kind]:
    stream = Stream(seed, "kinds")
    every = list(profile.weights) if tasks >= len(profile.weights) else []
    rest = [stream.weighted(profile.weights) for _ in range(tasks - len(every))]
    return stream.shuffled(every + rest)


def _task(
    seed: int | str, name: str, place: int, kind: Kind, profile: Profile
) -> tuple[ScriptedTask, list[ScheduledMessage]]:
    stream = Stream(seed, f"task/{place}")
    lease = profile.lease_seconds
    delay = min(DELAY_SECONDS_MAX, stream.seconds(0.0, profile.spread_leases * lease))
    thinks = stream.seconds(*(leases * lease for leases in profile.think_leases))
    draw = Drawing(name, profile, stream)
    turns = BUILDERS[kind](draw)
    script = Script(name, kind.value, turns, kind in INTERACTIVE_KINDS, thinks)
    return ScriptedTask(name, script, delay), list(_messages(script, draw))


def _messages(script: Script, draw: Drawing) -> Iterator[ScheduledMessage]:
    stream, lease = draw.stream, draw.profile.lease_seconds
    number = 0
    for turn in range(1, len(script.turns) + 1):
        beginnings = [] if turn == 1 else ["turn"]
        for what in beginnings + ["note"] * draw.notes.count(turn):
            number += 1
            odd = stream.choice(_MESSAGE_ODD) if stream.chance(0.2) else None
            starts = what == "turn"
            yield ScheduledMessage(
                task=script.task,
                number=number,
                kind="turn" if starts else "note",
                turn=turn,
                text=turn_message(turn, script.task, odd) if starts else note_message(number, script.task, odd),
                delay_seconds=stream.seconds(0.0, lease),
                posts=stream.weighted({1: 6, 2: 3, 3: 1}),
                may_be_refused=not script.interactive,
            )
