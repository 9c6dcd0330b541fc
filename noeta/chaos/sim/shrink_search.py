"""Looks for a smaller failure of the same law by striking anew, instead of leaving something out.

Leaving out goes down one path and ends where its anchors no longer meet anything. So strikes of the same kinds are
made at every point of what is left, one by one and then two by two, and at every point of the simulator's own small
scripts: most failures have a twin there. Whatever is found is smaller by its very beginning, else it is not played.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations, islice
from typing import Final, Protocol

import msgspec

from noeta.chaos.schedule import CLIENT, Kind, Play, Schedule, to_json
from noeta.chaos.sim.cases import CASES
from noeta.chaos.sim.modes import MODES, SUCCESSOR_POINTS
from noeta.chaos.sim.points import WORLD_POINTS
from noeta.chaos.sim.replay import playable
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.run import Execution, Playable
from noeta.chaos.sim.server import MakeStore
from noeta.chaos.sim.shrink_order import Bulk, Size, bulk_of, strikes_in
from noeta.chaos.sim.strikes import Strike, can_hit, in_order, strike_of
from noeta.core.ids import sha256_text
from noeta.core.texts import MAX_MODEL_ATTEMPTS
from scripted_model.seeds import Stream

change = msgspec.structs.replace

SEED: Final = "0"
"""Of the executions of the small scripts: nothing in them is left to it."""

SOME_SINGLES: Final = 300
SOME_PAIRS: Final = 1_000
"""Executions that are tried before slower passes: a few seconds."""

PLAIN_STRIKES: Final = tuple(
    dict.fromkeys(
        replace(strike, after=0)
        for mode in MODES.values()
        for strike in (mode.strike(0), *chain(*mode.prefixes(("append.before",))))
    )
)
"""Those of the exhaustive search, each once."""


class Ground(Protocol):
    """What a search works on."""

    @property
    def best(self) -> Schedule:
        """The smallest failing schedule so far."""
        ...

    @property
    def size(self) -> Size:
        """Of the best one."""
        ...

    @property
    def make_store(self) -> MakeStore | None:
        """The store to play on, if not the memory store."""
        ...

    @property
    def memory(self) -> dict[str, Found]:
        """What was played before, by its stage and strikes."""
        ...

    def judges(self, execution: Execution) -> tuple[Result, bool]:
        """Play it; whether it breaks the law and is smaller, so that it is the best now."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """An execution that was played: the points that can be struck next, after its last strike."""

    workers: Sequence[str]
    clients: Sequence[str]


@dataclass(frozen=True)
class Stage:
    """What is struck: a case, with so many workers. ``name`` tells it from all others of one shrinking,
    ``is_own`` whether it is what the schedule plays itself."""

    name: str
    case: Playable
    play: Play
    workers: int
    seed: str
    is_own: bool = False
    skews: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def calm(self) -> Bulk:
        """What an execution without a strike asks of its reader."""
        return bulk_of(self.play, faults=0, workers=self.workers)

    def bulk(self, faults: int) -> Bulk:
        """What an execution with so many strikes asks of its reader at least."""
        return self.calm._replace(faults=faults)

    def execution(self, ground: Ground, strikes: Sequence[Strike], *, client: bool) -> Execution:
        """Not yet played. Without excuses while the strikes alone fill no bound."""
        return Execution(
            self.case,
            in_order(strikes, client=client),
            seed=self.seed,
            workers=self.workers,
            skews=self.skews,
            excuses=len(strikes) >= MAX_MODEL_ATTEMPTS,
            make_store=ground.make_store,
        )


def some_strikes(ground: Ground) -> None:
    """None, then one, then two, at some points of the simulator's own scripts."""
    if not _one_strike(ground, small_stages(ground.best), executions_max=SOME_SINGLES):
        _two_strikes(ground, small_stages(ground.best), executions_max=SOME_PAIRS)


def again_one(ground: Ground) -> None:
    """None, then one, at every point of what is left."""
    _one_strike(ground, own_stages(ground.best))


def small_scripts_one(ground: Ground) -> None:
    """One, at every point of the simulator's own scripts."""
    _one_strike(ground, small_stages(ground.best))


def again_two(ground: Ground) -> None:
    """Two, at every pair of points of what is left."""
    _two_strikes(ground, own_stages(ground.best))


def small_scripts_two(ground: Ground) -> None:
    """Two, at every pair of points of the simulator's own scripts."""
    _two_strikes(ground, small_stages(ground.best))


def own_stages(best: Schedule) -> Iterator[Stage]:
    """What the best schedule plays, with one worker, two, … as many as it has."""
    play = best.play
    assert play is not None
    skews = {fault.target: fault.seconds("seconds") for fault in best.faults if fault.kind is Kind.SKEW}
    name = sha256_text(to_json(change(best, faults=(), play=change(play, turns=()))))
    for workers in range(1, play.workers + 1):
        yield Stage(name, playable(play), play, workers, best.seed, True, skews)


def small_stages(best: Schedule) -> Iterator[Stage]:
    """The simulator's own scripts, the smallest first, with one worker. A user's agent has no twin among them."""
    assert best.play is not None
    if best.play.app is not None:
        return
    stages = (Stage(case.name, case, case.cast().play, 1, SEED) for case in CASES.values())
    yield from sorted(stages, key=lambda stage: stage.bulk(0))


def menu_of(best: Schedule, *, own: bool = True) -> list[tuple[Strike, ...]]:
    """The strikes to make: for each fault of the schedule, in its order, the plain strikes of its kind and (``own``)
    itself. A kill stands in for a pause, too: who is gone comes back as little as who stands still for long enough."""
    menu: list[tuple[Strike, ...]] = []
    for fault in strikes_in(best):
        kinds = {fault.kind, Kind.KILL} if fault.kind is Kind.PAUSE else {fault.kind}
        plain = [strike for strike in PLAIN_STRIKES if strike.kind in kinds]
        menu.append(tuple(dict.fromkeys((*plain, strike_of(fault)) if own else plain)))
    return menu


def _sides(best: Schedule) -> list[bool]:
    """Whether the client is struck: workers first."""
    return sorted({fault.target == CLIENT for fault in strikes_in(best)})


def _one_strike(ground: Ground, stages: Iterable[Stage], executions_max: int | None = None) -> bool:
    """At every point in order, or at so many drawn from all; whether one is the best now. Ends there: what is smaller
    is made smaller by all passes before it is searched again."""
    plans = _singles(ground, stages)
    if executions_max is not None:
        plans = iter(Stream(ground.best.seed, "singles").shuffled(list(plans)))
    for stage, client, strikes in islice(plans, executions_max):
        if _is_less(ground, stage, len(strikes)) and _played(ground, stage, strikes, client=client):
            return True
    return False


def _singles(ground: Ground, stages: Iterable[Stage]) -> Iterator[tuple[Stage, bool, tuple[Strike, ...]]]:
    for stage in stages:
        for client in _sides(ground.best):
            yield stage, client, ()
            menu = dict.fromkeys(strike for strikes in menu_of(ground.best, own=stage.is_own) for strike in strikes)
            for strikes in _with_one_more(ground, stage, (), list(menu), client=client):
                yield stage, client, strikes


def _two_strikes(ground: Ground, stages: Iterable[Stage], executions_max: int | None = None) -> bool:
    """Pairs in the order of the faults that they are like; whether one is the best now. Drawn, not counted up: where
    one pair fails, its neighbours do, too, so that a few from everywhere find more than all from one place."""
    draws = Stream(ground.best.seed, "pairs")
    firsts = [
        _seconds(ground, stage, first, laters, draws, client=client)
        for stage in stages
        for client in _sides(ground.best)
        for earlier, laters in _in_order(menu_of(ground.best, own=stage.is_own)).items()
        for first in _with_one_more(ground, stage, (), [earlier], client=client, named=True)
    ]
    firsts = draws.shuffled(firsts)
    played = 0
    while firsts:
        going = []
        for seconds in firsts:
            if played == executions_max:
                return False
            is_best = next(seconds, None)
            if is_best:
                return True
            if is_best is not None:
                going.append(seconds)
                played += 1
        firsts = going
    return False


def _in_order(menu: Sequence[Sequence[Strike]]) -> dict[Strike, list[Strike]]:
    """For each strike those that may come after it, each once."""
    after: dict[Strike, dict[Strike, None]] = {}
    for earlier, later in combinations(menu, 2):
        for strike in earlier:
            after.setdefault(strike, {}).update(dict.fromkeys(later))
    return {strike: list(laters) for strike, laters in after.items()}


def _seconds(
    ground: Ground, stage: Stage, first: tuple[Strike, ...], later: Sequence[Strike], draws: Stream, *, client: bool
) -> Iterator[bool]:
    """Plays a first strike with a second, one place after another; whether it is the best now."""
    places = list(_with_one_more(ground, stage, first, later, client=client, within=SUCCESSOR_POINTS))
    for strikes in draws.shuffled(places):
        yield _played(ground, stage, strikes, client=client)


def _with_one_more(
    ground: Ground,
    stage: Stage,
    before: tuple[Strike, ...],
    strikes: Sequence[Strike],
    *,
    client: bool,
    within: int | None = None,
    named: bool = False,
) -> Iterator[tuple[Strike, ...]]:
    """These strikes with one more of these, at every point where it can hit. ``named``: only where the code under
    test names the point. A plan counts either the points of workers or those of the client, which is only killed."""
    if not _is_less(ground, stage, len(before) + 1):
        return
    key = _key(stage, before, client=client)
    if key not in ground.memory:
        _played(ground, stage, before, client=client)
    found = ground.memory[key]
    for strike in strikes:
        for n, point in enumerate((found.clients if client else found.workers)[:within], start=1):
            hits = can_hit(strike.kind, point) and (not client or strike.kind is Kind.KILL)
            if hits and not (named and point in WORLD_POINTS):
                yield (*before, replace(strike, after=n))


def _played(ground: Ground, stage: Stage, strikes: tuple[Strike, ...], *, client: bool) -> bool:
    """Play it, unless it was played before; whether it is the best now."""
    key = _key(stage, strikes, client=client)
    if key in ground.memory:
        return False
    result, is_best = ground.judges(stage.execution(ground, strikes, client=client))
    made = sum(strike.after for strike in strikes)
    ground.memory[key] = Found(result.points[0 if client else made :], result.client_points[made if client else 0 :])
    return is_best


def _is_less(ground: Ground, stage: Stage, faults: int) -> bool:
    """Whether an execution of this stage with so many strikes would be smaller by its very beginning."""
    return stage.bulk(faults) < ground.size.bulk


def _key(stage: Stage, strikes: Sequence[Strike], *, client: bool) -> str:
    return f"{stage.name} {stage.workers} {client} {strikes}"
