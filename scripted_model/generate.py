"""From a seed to a workload: the same bytes in every process, Python version and hash seed.

Each task is drawn from a stream of its own, named by its place, so a change to one task changes no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from noeta.core.limits import DELAY_SECONDS_MAX
from scripted_model.drawing import Drawing, Planned
from scripted_model.kinds import BUILDERS
from scripted_model.profile import Kind, Profile
from scripted_model.script import Script
from scripted_model.seeds import Stream
from scripted_model.words import POSTED_ODD, note_message, turn_message
from scripted_model.workload import MessageKind, ScheduledMessage, ScriptedTask, Workload

TASKS_MAX = 100_000
"""More tasks than any one run loads."""

POSTS = MappingProxyType({1: 6, 2: 3, 3: 1})
"""How often a message is posted under its one key, by weight."""


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
    every = [kind for kind in profile.weights for _ in range(profile.at_least.get(kind, 1))]
    if tasks < len(every):
        every = []
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
    script = draw.script(kind.value, BUILDERS[kind](draw), thinks)
    return ScriptedTask(name, script, delay), list(_messages(script, draw))


def _messages(script: Script, draw: Drawing) -> Iterator[ScheduledMessage]:
    cancelled = any(planned.kind == "cancel" for planned in draw.said)
    number = 0
    for turn in range(1, len(script.turns) + 1):
        talks: list[MessageKind] = [] if turn == 1 else ["turn"]
        talks += ["note"] * draw.notes.count(turn)
        for what in talks:
            number += 1
            yield _talk(script, draw, what, turn, number, may_be_refused=cancelled or not script.interactive)
        for planned in draw.said:
            if planned.turn == turn:
                number += 1
                yield _deed(script, draw, planned, number, cancelled=cancelled)


def _talk(
    script: Script, draw: Drawing, kind: MessageKind, turn: int, number: int, *, may_be_refused: bool
) -> ScheduledMessage:
    """A turn's first message, or a note."""
    stream = draw.stream
    odd = stream.choice(POSTED_ODD) if stream.chance(0.2) else None
    low, high = draw.turn_leases.get(turn, (0.0, 1.0)) if kind == "turn" else (0.0, 1.0)
    lease = draw.profile.lease_seconds
    says = turn_message(turn, script.task, odd) if kind == "turn" else note_message(number, script.task, odd)
    return ScheduledMessage(
        task=script.task,
        number=number,
        kind=kind,
        turn=turn,
        text=says,
        delay_seconds=stream.seconds(low * lease, high * lease),
        posts=stream.weighted(POSTS),
        may_be_refused=may_be_refused,
    )


def _deed(script: Script, draw: Drawing, planned: Planned, number: int, *, cancelled: bool) -> ScheduledMessage:
    """Anything else that a client does."""
    low, high = (leases * draw.profile.lease_seconds for leases in planned.leases)
    return ScheduledMessage(
        task=script.task,
        number=number,
        kind=planned.kind,
        turn=planned.turn,
        delay_seconds=draw.stream.seconds(low, high),
        posts=draw.stream.weighted(POSTS),
        may_be_refused=cancelled or (not script.interactive and not planned.needed),
        **planned.more,
    )
