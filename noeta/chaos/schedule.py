"""A schedule is data: which faults strike, whom, and when. One format for real storms and for the simulator.

The generator is a function of seed and size alone. With real processes a schedule repeats the plan, not the
timing; in the simulator, with its ``play``, it repeats every decision. Anchors are instants of the storm, or better
logical: the n-th time a worker reaches a named point.

A plan cannot know whether a strike will hurt: the target may be idle. So a schedule carries quotas and spare
faults, and the nemesis goes on with the spares until the quotas are met or the time is up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from noeta.backends.stores.around import READ_VERBS, WRITE_VERBS
from noeta.core.errors import BadInput
from scripted_model.workload import ScheduledMessage, ScriptedTask

FORMAT: Final = 2
"""Of the JSON; a reader refuses any other."""


class Kind(StrEnum):
    """What a fault does. ``w`` is its target, a worker process; database faults have the target ``server``."""

    KILL = "kill"
    """SIGKILL to w; a new process of the same name after ``respawn_seconds``."""
    KILL_ALL = "kill_all"
    """SIGKILL to every worker, stopped ones included; all come back after ``respawn_seconds``."""
    PAUSE = "pause"
    """SIGSTOP to w; SIGCONT after ``seconds`` *and* once a claim of it was taken over, at most after
    ``seconds_max``."""
    TERMINATE = "terminate"
    """SIGTERM to w, which gives its tasks back; a new process once it is gone (killed after a bound)."""
    RESTART_SAME_NAME = "restart_same_name"
    """SIGKILL to w and a new process of the same name at once, while the old one's leases still run."""
    SKEW = "skew"
    """The clock of w is off by ``seconds`` for the whole storm; its monotonic clock is not."""
    DB_RESTART = "db_restart"
    """The server is shut down and comes back after ``seconds``. ``mode``: ``fast`` or ``immediate``."""
    DB_KILL = "db_kill"
    """SIGKILL to the whole server, which comes back after ``seconds``."""
    STORE_UNAVAILABLE = "store_unavailable"
    """The store call that w is about to make is refused unsent."""
    UNKNOWN_LOST = "unknown_lost"
    """The connection breaks in the middle of the call of w: it never arrived."""
    UNKNOWN_LANDED = "unknown_landed"
    """The connection breaks in the middle of the call of w: it landed."""
    UNKNOWN_LATER = "unknown_later"
    """The connection breaks in the middle of the call of w: it lands ``seconds`` later."""
    SLOW = "slow"
    """The call of w takes ``seconds`` to arrive, and w waits for it."""
    CUT_BEFORE_COMMIT = "cut_before_commit"
    """The connection of w is reset when its next commit comes to the wire: the statement never reaches the server."""
    CUT_AFTER_COMMIT = "cut_after_commit"
    """The connection of w is reset once the server has answered its next commit: w never hears of it."""
    SAY = "say"
    """The client posts its next message at this very moment, due or not. Simulator only."""


DATABASE_KINDS: Final = frozenset({Kind.DB_RESTART, Kind.DB_KILL})
CALL_KINDS: Final = frozenset(
    {Kind.STORE_UNAVAILABLE, Kind.UNKNOWN_LOST, Kind.UNKNOWN_LANDED, Kind.UNKNOWN_LATER, Kind.SLOW}
)
"""Kinds that spoil one store call: they stand at one of ``CALL_POINTS``."""

CALL_POINTS: Final = frozenset(f"{verb}.before" for verb in (*WRITE_VERBS, *READ_VERBS))

WIRE_KINDS: Final = frozenset({Kind.CUT_BEFORE_COMMIT, Kind.CUT_AFTER_COMMIT})
"""Kinds that cut the connection between a worker and its server: they stand at one of ``WIRE_POINTS``."""

SENT: Final = ".sent"
ANY_COMMIT: Final = "commit"
"""Instead of a verb: whatever commits next."""

WIRE_POINTS: Final = frozenset(f"{verb}{SENT}" for verb in (*WRITE_VERBS, ANY_COMMIT))
"""A statement of w that commits comes to the proxy on its way to the server. Its only fact is its ``task``, where it
is of one."""

AIMABLE_KINDS: Final = frozenset({Kind.KILL, Kind.PAUSE}) | CALL_KINDS | WIRE_KINDS
"""Kinds that may stand at a point: the process strikes itself there, or the proxy does."""

SIM_AIMABLE_KINDS: Final = (AIMABLE_KINDS - WIRE_KINDS) | {Kind.TERMINATE, Kind.SAY}
"""Those of the simulator, which has no wire."""

SIM_INSTEAD: Final[Mapping[Kind, Kind]] = {
    Kind.CUT_BEFORE_COMMIT: Kind.UNKNOWN_LOST,
    Kind.CUT_AFTER_COMMIT: Kind.UNKNOWN_LANDED,
}
"""What a worker sees of a cut, it sees of these in the simulator, at ``<verb>.before``."""

SERVER: Final = "server"
EVERY_WORKER: Final = "*"
PLAY_WORKERS_MAX: Final = 16
CLIENT: Final = "client"
"""The target that is no worker: who creates tasks and posts messages. Simulator only."""


class After(msgspec.Struct, frozen=True, tag="after", tag_field="when"):
    """So many seconds into the storm, or as soon as possible afterwards."""

    seconds: float


class AtPoint(msgspec.Struct, frozen=True, tag="at_point", tag_field="when"):
    """The ``n``-th time that a process reaches this point, counted from ``since`` seconds into the storm on.

    ``worker`` None: whoever is first. A new process begins to count anew; ``incarnation``: only the process that is
    the so-manieth of its name (0: any). ``where``: only passings with these facts are counted, as ``task`` or
    ``events`` (a name that must be among the entries of an append).
    """

    point: str
    n: int
    worker: str | None = None
    since: float = 0.0
    incarnation: int = 0
    where: Mapping[str, str] = {}

    def counts(self, facts: Mapping[str, object]) -> bool:
        """Whether a passing with these facts is one to count."""
        return all(_has(facts.get(name), name, value) for name, value in self.where.items())


Anchor = After | AtPoint


class Fault(msgspec.Struct, frozen=True):
    """One strike. ``target``: a worker's name, ``server``, or ``*``. ``args``: see ``Kind``; spans in seconds."""

    id: str
    kind: Kind
    target: str
    anchor: Anchor
    args: Mapping[str, float | str] = {}

    def seconds(self, name: str) -> float:
        """A span among the arguments."""
        value = self.args[name]
        assert isinstance(value, int | float), f"{self.id}: {name} is a number of seconds, found {value!r}"
        return float(value)


class Quotas(msgspec.Struct, frozen=True):
    """How much must really hurt for a storm to count: see ``harness.md`` on effective kills and pauses."""

    kills: int = 0
    kill_alls: int = 0
    pauses: int = 0

    def of(self, kind: Kind) -> int:
        """The quota that an effective fault of this kind counts towards; 0: none."""
        match kind:
            case Kind.KILL | Kind.RESTART_SAME_NAME:
                return self.kills
            case Kind.KILL_ALL:
                return self.kill_alls
            case Kind.PAUSE:
                return self.pauses
            case _:
                return 0


class Turn(msgspec.Struct, frozen=True, array_like=True):
    """A switch of the simulator's scheduler that first-come-first-served would not have made.

    The ``resumed``-th time that this activity (``process/name``) goes on, it goes before others that were ready
    earlier, after it was itself passed over ``passed`` times. Anchored in the activity, not in a global count, so
    that leaving out one thing leaves the other anchors true.
    """

    activity: str
    resumed: int
    passed: int


class Play(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a simulated execution plays, beside its faults: with it a schedule repeats everything, bit for bit.

    ``app``: ``MODULE:FUNCTION`` of a user's own agent, which brings its tasks itself. ``lenient``: enough faults come
    to push a task into a bound, so an outcome may be one that faults excuse. ``unresolved``: so many times per task
    its engine cannot be had at first.
    """

    name: str
    workers: int = 1
    tasks: tuple[ScriptedTask, ...] = ()
    messages: tuple[ScheduledMessage, ...] = ()
    turns: tuple[Turn, ...] = ()
    app: str | None = None
    lenient: bool = False
    unresolved: int = 0


class Schedule(msgspec.Struct, frozen=True):
    """The plan of a storm or of a simulated execution. ``spares`` are struck in their order, when a quota of their
    kind is not yet met. ``play``: what only the simulator repeats; a storm takes its tasks and messages."""

    seed: str
    faults: tuple[Fault, ...]
    spares: tuple[Fault, ...] = ()
    quotas: Quotas = Quotas()
    format: int = FORMAT
    play: Play | None = None

    def all_faults(self) -> tuple[Fault, ...]:
        """Planned and spare."""
        return self.faults + self.spares

    def kinds(self) -> frozenset[Kind]:
        """Every kind that is planned."""
        return frozenset(fault.kind for fault in self.faults)

    def without(self, kinds: frozenset[Kind]) -> Schedule:
        """The same plan without some kinds: a run says which were refused and why."""
        return msgspec.structs.replace(
            self,
            faults=tuple(fault for fault in self.faults if fault.kind not in kinds),
            spares=tuple(fault for fault in self.spares if fault.kind not in kinds),
        )


def to_json(schedule: Schedule) -> str:
    """Readable text with sorted keys: the same schedule gives the same bytes."""
    return json.dumps(msgspec.to_builtins(schedule), indent=1, sort_keys=True) + "\n"


_S = TypeVar("_S")


def from_json(text: str | bytes) -> Schedule:
    """Read and check a schedule, which a person may have written.

    Raises:
        BadInput: names what is wrong and where.
    """
    schedule = _decoded(text, Schedule)
    check(schedule)
    return schedule


def check(schedule: Schedule) -> None:
    """Refuse a plan that cannot be struck.

    Raises:
        BadInput.
    """
    if schedule.format != FORMAT:
        raise BadInput("schedule.format", f"expected {FORMAT}, found {schedule.format}")
    seen: set[str] = set()
    for fault in schedule.all_faults():
        where = f"fault {fault.id!r}"
        if fault.id in seen or not fault.id or "/" in fault.id or "\0" in fault.id:
            raise BadInput(where, "an id is not empty, has no '/', and stands once")
        seen.add(fault.id)
        if missing := _ARGS[fault.kind] - fault.args.keys():
            raise BadInput(where, f"a {fault.kind} needs {', '.join(sorted(missing))}")
        for name in _ARGS[fault.kind]:
            value: Any = fault.args[name]
            if name == "mode":
                if value not in ("fast", "immediate"):
                    raise BadInput(where, f"mode is fast or immediate, found {value!r}")
            elif not isinstance(value, int | float) or (fault.kind is not Kind.SKEW and value < 0):
                raise BadInput(where, f"{name} is a number of seconds, found {value!r}")
        _check_anchor(where, fault, AIMABLE_KINDS if schedule.play is None else SIM_AIMABLE_KINDS)
        if schedule.play is not None and isinstance(fault.anchor, After) and fault.kind is not Kind.SKEW:
            raise BadInput(where, f"a {fault.kind} of a simulated execution stands at a point, found an instant")
    if schedule.play is not None:
        _check_play(schedule.play)


def _check_anchor(where: str, fault: Fault, aimable: frozenset[Kind]) -> None:
    expected = {Kind.KILL_ALL: EVERY_WORKER, Kind.DB_RESTART: SERVER, Kind.DB_KILL: SERVER}.get(fault.kind)
    if expected is not None and fault.target != expected:
        raise BadInput(where, f"a {fault.kind} has the target {expected!r}, found {fault.target!r}")
    match fault.anchor:
        case After(seconds=seconds):
            if seconds < 0:
                raise BadInput(where, f"strikes {seconds} s before the storm")
            if expected is None and fault.target == EVERY_WORKER:
                raise BadInput(where, f"a {fault.kind} at an instant names its worker")
            if fault.kind in CALL_KINDS:
                raise BadInput(where, f"a {fault.kind} spoils a store call: its anchor is a point <verb>.before")
            if fault.kind in WIRE_KINDS:
                raise BadInput(where, f"a {fault.kind} is aimed at a commit: its anchor is a point <verb>.sent")
        case AtPoint(point=point, n=n, since=since, worker=worker, incarnation=incarnation):
            if fault.kind in WIRE_KINDS - aimable:
                raise BadInput(
                    where, f"the simulator has no wire for a {fault.kind}: {SIM_INSTEAD[fault.kind]} at <verb>.before"
                )
            if (fault.kind in WIRE_KINDS) != (point in WIRE_POINTS):
                raise BadInput(where, f"a cut on the wire, and only that, is at <verb>.sent, found {point!r}")
            if fault.kind in WIRE_KINDS and fault.anchor.where.keys() - {"task"}:
                raise BadInput(where, f"on the wire only a task is known, found {sorted(fault.anchor.where)}")
            if fault.kind not in aimable:
                raise BadInput(where, f"a {fault.kind} cannot be aimed at a point")
            if fault.target == CLIENT and fault.kind is not Kind.KILL:
                raise BadInput(where, f"the client can only be killed, found a {fault.kind}")
            if fault.kind in CALL_KINDS and point not in CALL_POINTS:
                raise BadInput(
                    where, f"a {fault.kind} spoils a store call: its point is <verb>.before, found {point!r}"
                )
            if n < 1 or since < 0 or incarnation < 0:
                raise BadInput(where, f"n counts from 1 and since from 0, found {n} and {since}")
            if fault.target != (worker or EVERY_WORKER):
                raise BadInput(where, f"its target is {fault.target!r}, but its anchor names {worker!r}")


_ARGS: Final[Mapping[Kind, frozenset[str]]] = {
    Kind.KILL: frozenset({"respawn_seconds"}),
    Kind.KILL_ALL: frozenset({"respawn_seconds"}),
    Kind.PAUSE: frozenset({"seconds", "seconds_max"}),
    Kind.TERMINATE: frozenset(),
    Kind.RESTART_SAME_NAME: frozenset(),
    Kind.SKEW: frozenset({"seconds"}),
    Kind.DB_RESTART: frozenset({"seconds", "mode"}),
    Kind.DB_KILL: frozenset({"seconds"}),
    Kind.STORE_UNAVAILABLE: frozenset(),
    Kind.UNKNOWN_LOST: frozenset(),
    Kind.UNKNOWN_LANDED: frozenset(),
    Kind.UNKNOWN_LATER: frozenset({"seconds"}),
    Kind.SLOW: frozenset({"seconds"}),
    Kind.CUT_BEFORE_COMMIT: frozenset(),
    Kind.CUT_AFTER_COMMIT: frozenset(),
    Kind.SAY: frozenset(),
}


def _check_play(play: Play) -> None:
    if not 1 <= play.workers <= PLAY_WORKERS_MAX:
        raise BadInput("schedule.play.workers", f"from 1 to {PLAY_WORKERS_MAX}, found {play.workers}")
    if (play.app is None) == (not play.tasks):
        raise BadInput("schedule.play", "either an app or tasks, found " + ("neither" if play.app is None else "both"))
    for turn in play.turns:
        if turn.resumed < 1 or turn.passed < 0:
            raise BadInput("schedule.play.turns", f"resumed counts from 1 and passed from 0, found {turn}")


def _has(found: object, name: str, value: str) -> bool:
    return value in str(found).split(",") if name == "events" else str(found) == value


def _decoded(text: str | bytes, kind: type[_S]) -> _S:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput("schedule", str(error)) from error
