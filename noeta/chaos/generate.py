"""From a seed to a schedule: the faults of a storm, spread over it, and spares for those that will not hurt.

Each family of faults draws from a stream of its own, so that a change to one changes no other. Instants are
whole milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from noeta.chaos.config import Config
from noeta.chaos.schedule import (
    CALL_KINDS,
    EVERY_WORKER,
    SERVER,
    WIRE_KINDS,
    After,
    Anchor,
    AtPoint,
    Fault,
    Kind,
    Quotas,
    Schedule,
    check,
)
from noeta.chaos.seeds import Stream, stream

FULL_SECONDS: Final = 45.0
"""A storm of this length meets the full quotas; a shorter one a share of them."""

FULL_QUOTAS: Final = Quotas(kills=20, kill_alls=2, pauses=5)
PLANNED_PER_QUOTA: Final = 1.3
"""Some strikes will find nobody at work."""

SPARES_PER_QUOTA: Final = 4
BLOWS_UNTIL: Final = 0.85
"""The share of the storm in which planned faults begin; afterwards only spares strike, if they must."""

AIMED_EVERY: Final = 2
"""Every second kill and pause stands at a point, instead of at an instant."""

SAME_NAME_EVERY: Final = 5
"""Every fifth kill is followed at once by a process of the same name."""

RESPAWN_LEASES: Final = (0.1, 1.2)
PAUSE_LEASES: Final = (1.5, 3.0)
PAUSE_LEASES_MAX: Final = 8.0
"""How long a takeover is awaited before the paused process goes on regardless."""

CALLS_PER_KIND: Final = 2
"""Store calls that each kind of call fault spoils, in a storm of full length."""

CALL_LEASES: Final = (0.1, 1.5)
"""How long a spoiled call takes. One that outlasts the lease comes too late, and must be refused."""

WRITE_POINTS: Final[Mapping[str, int]] = {"append.before": 6, "renew.before": 3, "claim.before": 2, "release.before": 1}
CALL_POINTS: Final[Mapping[str, int]] = {**WRITE_POINTS, "read.before": 3, "fire_due_timers.before": 1}
"""Which calls are spoiled, by weight; only of a write can the outcome be unknown."""

CUTS_PER_KIND: Final = 6
"""Connections cut before a commit, and as many after one, in a storm of full length."""

CUT_POINTS: Final[Mapping[str, int]] = {"append.sent": 8, "claim.sent": 2, "renew.sent": 1, "release.sent": 1}
"""Whose commits they are, by weight. Commits of one task mostly: what became of them stands in its log."""

CUT_NTH_MAX: Final = 3

SKEW_LEASES: Final = 2.0
DOWN_LEASES: Final = (0.5, 2.5)

KILL_POINTS: Final[Mapping[str, int]] = {
    "tool.before_journal": 6,
    "tool.after_journal": 8,
    "append.before": 5,
    "append.after": 6,
    "model.before": 2,
    "model.after": 3,
    "recover.call": 4,
    "claim.after": 3,
    "read.after": 2,
    "renew.before": 1,
    "renew.after": 1,
    "claim.before": 1,
    "read.before": 1,
    "release.before": 1,
    "release.after": 1,
    "requeue_stale.before": 1,
    "requeue_stale.after": 1,
    "fire_due_timers.before": 1,
    "fire_due_timers.after": 1,
}
"""Where a process kills itself, by weight: before and after each call of a worker to its store, and around its work.
The last ones seldom cut a step short, so they are few: what they miss of the quotas is for the spares."""

PAUSE_POINTS: Final[Mapping[str, int]] = {
    "append.before": 6,
    "tool.before_journal": 3,
    "tool.after_journal": 2,
    "model.after": 2,
    "claim.after": 1,
    "renew.before": 1,
}
"""Where a process stops itself: mostly right before an append, which is then refused."""

NTH_MAX: Final[Mapping[str, int]] = {
    "recover.call": 1,
    "release.before": 1,
    "release.after": 1,
    "claim.before": 8,
    "claim.after": 8,
    "append.before": 6,
    "append.after": 6,
}
"""Rare points are struck at once; others after a few passes. Points not named: up to 3."""


def quotas_for(seconds: float) -> Quotas:
    """What a storm of this length must achieve."""
    share = min(1.0, seconds / FULL_SECONDS)
    return Quotas(
        math.ceil(FULL_QUOTAS.kills * share),
        math.ceil(FULL_QUOTAS.kill_alls * share),
        math.ceil(FULL_QUOTAS.pauses * share),
    )


def generate(seed: int | str, config: Config) -> Schedule:
    """The schedule of a seed for a storm of this size."""
    quotas = quotas_for(config.seconds)
    # A longer storm is not a calmer one: it gets more of the same.
    stretch = max(1.0, config.seconds / FULL_SECONDS)
    faults = [
        *_skews(seed, config),
        *_kills(seed, config, math.ceil(quotas.kills * stretch * PLANNED_PER_QUOTA)),
        *_pauses(seed, config, math.ceil(quotas.pauses * stretch * PLANNED_PER_QUOTA)),
        *_kill_alls(seed, config, math.ceil(quotas.kill_alls * stretch)),
        *_gentle(seed, config, math.ceil(2 * stretch * min(1.0, config.seconds / FULL_SECONDS))),
        *_calls(seed, config, math.ceil(CALLS_PER_KIND * stretch * min(1.0, config.seconds / FULL_SECONDS))),
        *_database(seed, config, math.ceil(stretch)),
        *_cuts(seed, config, math.ceil(CUTS_PER_KIND * stretch * min(1.0, config.seconds / FULL_SECONDS))),
    ]
    schedule = Schedule(str(seed), tuple(sorted(faults, key=_instant)), tuple(_spares(seed, config, quotas)), quotas)
    check(schedule)
    return schedule


def _instant(fault: Fault) -> tuple[float, str]:
    match fault.anchor:
        case After(seconds=seconds):
            return seconds, fault.id
        case AtPoint(since=since):
            return since, fault.id


def _kills(seed: int | str, config: Config, count: int) -> Iterator[Fault]:
    draws = stream(seed, "nemesis/kill")
    for number, at in enumerate(_spread(draws, config, count), start=1):
        yield _kill(draws, config, number, at)


def _kill(draws: Stream, config: Config, number: int, at: float) -> Fault:
    id = f"kill-{number:03d}"
    target = draws.choice(config.worker_names)
    respawn = draws.seconds(*_leases(config, RESPAWN_LEASES))
    aim = _aim(draws, KILL_POINTS, target, at)
    if number % SAME_NAME_EVERY == 0:
        return Fault(id, Kind.RESTART_SAME_NAME, target, After(at))
    if number % AIMED_EVERY == 0:
        return Fault(id, Kind.KILL, target, aim, {"respawn_seconds": respawn})
    return Fault(id, Kind.KILL, target, After(at), {"respawn_seconds": respawn})


def _pauses(seed: int | str, config: Config, count: int) -> Iterator[Fault]:
    draws = stream(seed, "nemesis/pause")
    for number, at in enumerate(_spread(draws, config, count), start=1):
        yield _pause(draws, config, number, at)


def _pause(draws: Stream, config: Config, number: int, at: float) -> Fault:
    id = f"pause-{number:03d}"
    target = draws.choice(config.worker_names)
    span = draws.seconds(*_leases(config, PAUSE_LEASES))
    # The first of all stands right before an append, so that one is surely refused.
    points = {"append.before": 1} if number == AIMED_EVERY else PAUSE_POINTS
    aim = _aim(draws, points, target, at)
    anchor: Anchor = aim if number % AIMED_EVERY == 0 else After(at)
    span_max = round(PAUSE_LEASES_MAX * config.lease_seconds, 3)
    return Fault(id, Kind.PAUSE, target, anchor, {"seconds": span, "seconds_max": span_max})


def _kill_alls(seed: int | str, config: Config, count: int) -> Iterator[Fault]:
    draws = stream(seed, "nemesis/kill_all")
    for number, at in enumerate(_spread(draws, config, count), start=1):
        yield _kill_all(draws, config, f"kill_all-{number:03d}", at)


def _kill_all(draws: Stream, config: Config, id: str, at: float) -> Fault:
    respawn = draws.seconds(*_leases(config, RESPAWN_LEASES))
    return Fault(id, Kind.KILL_ALL, EVERY_WORKER, After(at), {"respawn_seconds": respawn})


def _gentle(seed: int | str, config: Config, count: int) -> Iterator[Fault]:
    draws = stream(seed, "nemesis/terminate")
    for number, at in enumerate(_spread(draws, config, count), start=1):
        yield Fault(f"terminate-{number:03d}", Kind.TERMINATE, draws.choice(config.worker_names), After(at))


def _database(seed: int | str, config: Config, count: int) -> Iterator[Fault]:
    draws = stream(seed, "nemesis/database")
    instants = _spread(draws, config, 2 * count)
    kinds = draws.shuffled([Kind.DB_RESTART, Kind.DB_KILL] * count)
    for number, (kind, at) in enumerate(zip(kinds, instants, strict=True), start=1):
        down = draws.seconds(*_leases(config, DOWN_LEASES))
        mode = draws.choice(("fast", "immediate"))
        args: dict[str, float | str] = {"seconds": down}
        if kind is Kind.DB_RESTART:
            args["mode"] = mode
        yield Fault(f"{kind}-{number:03d}", kind, SERVER, After(at), args)


def _calls(seed: int | str, config: Config, count: int) -> Iterator[Fault]:
    """``count`` of each kind. The first of each stands at an append, which surely comes."""
    draws = stream(seed, "nemesis/call")
    kinds = draws.shuffled(sorted(CALL_KINDS) * count)
    seen: set[Kind] = set()
    for number, (kind, at) in enumerate(zip(kinds, _spread(draws, config, len(kinds)), strict=True), start=1):
        target = draws.choice(config.worker_names)
        points = CALL_POINTS if kind in (Kind.STORE_UNAVAILABLE, Kind.SLOW) else WRITE_POINTS
        aim = _aim(draws, points if kind in seen else {"append.before": 1}, target, at)
        span = draws.seconds(*_leases(config, CALL_LEASES))
        args = {"seconds": span} if kind in (Kind.SLOW, Kind.UNKNOWN_LATER) else {}
        yield Fault(f"call-{number:03d}", kind, target, aim, args)
        seen.add(kind)


def _cuts(seed: int | str, config: Config, count: int) -> Iterator[Fault]:
    """``count`` of each kind, by turns. The first of each stands at an append, which surely comes."""
    draws = stream(seed, "nemesis/wire")
    kinds = (Kind.CUT_BEFORE_COMMIT, Kind.CUT_AFTER_COMMIT) * count
    for number, (kind, at) in enumerate(zip(kinds, _spread(draws, config, len(kinds)), strict=True), start=1):
        target = draws.choice(config.worker_names)
        point = draws.weighted(CUT_POINTS if number > len(WIRE_KINDS) else {"append.sent": 1})
        anchor = AtPoint(point, draws.between(1, CUT_NTH_MAX), target, since=at)
        yield Fault(f"cut-{number:03d}", kind, target, anchor)


def _skews(seed: int | str, config: Config) -> Iterator[Fault]:
    """Half the workers, one forward, the next back."""
    draws = stream(seed, "nemesis/skew")
    chosen = draws.shuffled(config.worker_names)[: config.workers // 2]
    sign = 1 if draws.chance(0.5) else -1
    for number, name in enumerate(chosen, start=1):
        seconds = round(sign * SKEW_LEASES * config.lease_seconds, 3)
        yield Fault(f"skew-{number:03d}", Kind.SKEW, name, After(0.0), {"seconds": seconds})
        sign = -sign


def _spares(seed: int | str, config: Config, quotas: Quotas) -> Iterator[Fault]:
    """Kills, pauses and kill-alls by turns. None is aimed: a spare must strike now."""
    draws = stream(seed, "nemesis/spare")
    for number in range(1, SPARES_PER_QUOTA * quotas.kills + 1):
        id = f"spare-{number:03d}"
        target = draws.choice(config.worker_names)
        respawn = draws.seconds(*_leases(config, RESPAWN_LEASES))
        span = draws.seconds(*_leases(config, PAUSE_LEASES))
        if number % 8 == 0:
            yield Fault(id, Kind.KILL_ALL, EVERY_WORKER, After(0.0), {"respawn_seconds": respawn})
        elif number % 3 == 0:
            span_max = round(PAUSE_LEASES_MAX * config.lease_seconds, 3)
            yield Fault(id, Kind.PAUSE, target, After(0.0), {"seconds": span, "seconds_max": span_max})
        else:
            yield Fault(id, Kind.KILL, target, After(0.0), {"respawn_seconds": respawn})


def _spread(draws: Stream, config: Config, count: int) -> list[float]:
    """Instants over the blowing part of the storm, one in each of ``count`` equal spans."""
    first, last = min(1.0, 0.1 * config.seconds), config.seconds * BLOWS_UNTIL
    span = (last - first) / max(count, 1)
    return [draws.seconds(first + place * span, first + (place + 1) * span) for place in range(count)]


def _aim(draws: Stream, points: Mapping[str, int], target: str, at: float) -> AtPoint:
    point = draws.weighted(points)
    return AtPoint(point, draws.between(1, NTH_MAX.get(point, 3)), target, since=at)


def _leases(config: Config, leases: tuple[float, float]) -> tuple[float, float]:
    low, high = leases
    return low * config.lease_seconds, high * config.lease_seconds
