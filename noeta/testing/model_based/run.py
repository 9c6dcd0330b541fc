"""One entry point: compare a store with the reference over many random examples, and shrink what differs.

Deterministic for a seed, as far as the candidate is. Bounded in time: when the time is over, an example under way is
the last, and a failure is reported as small as it has become.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import seed as seeded
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from noeta.testing.model_based.machine import Machine
from noeta.testing.model_based.pair import Disagreement
from noeta.testing.model_based.progress import Progress, TimeIsOver
from noeta.testing.model_based.shrink import replay, shrink
from noeta.testing.model_based.situations import REQUIRED

if TYPE_CHECKING:  # it imports pytest, which whoever compares two stores may not have
    from noeta.testing.contract.stage import StoreFactory

SECONDS: Final = 300.0
"""How long one comparison looks for a difference unless told otherwise; shrinking gets as long again."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The smallest difference found. ``example`` and ``step``: where it was met first, counted from 1.

    ``script`` is a Python module with one test that fails on this store and passes on the reference. ``repeats``: the
    same steps gave the same difference again; if not, the store decides by something that the steps do not hold.
    """

    difference: str
    script: str
    steps: int
    example: int
    step: int
    repeats: bool

    def __str__(self) -> str:
        lines = [f"first met in example {self.example}, call {self.step}; shrunk to {self.steps} calls"]
        if not self.repeats:
            lines.append("it does NOT repeat: the store decides by something that its calls and its clock do not hold")
        return "\n".join([*lines, self.difference, "", self.script])


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared. ``situations``: how often each occurred, those that never did included; ``freedoms``: how
    often the reference followed the candidate where the contract leaves it a choice; ``restarts``: how often the
    candidate chose otherwise after the same steps, so that the search went on under another seed."""

    seed: int
    examples: int
    steps: int
    calls: Mapping[str, int]
    situations: Mapping[str, int]
    freedoms: Mapping[str, int]
    out_of_time: bool
    restarts: int
    failure: Failure | None

    @property
    def missing(self) -> tuple[str, ...]:
        """Situations that never occurred: about them the comparison says nothing."""
        return tuple(name for name, count in self.situations.items() if not count)

    def __str__(self) -> str:
        lines = [f"seed={self.seed} examples={self.examples} steps={self.steps}"]
        if self.out_of_time:
            lines.append("out of time")
        for title, counts in (("call", self.calls), ("situation", self.situations), ("freedom", self.freedoms)):
            lines += [f"  {title:<9} {count:>7}  {name}" for name, count in sorted(counts.items())]
        if self.missing:
            lines.append(f"never occurred: {', '.join(self.missing)}")
        if self.failure is not None:
            lines += [str(self.failure)]
        return "\n".join(lines)


def compare(
    factory: StoreFactory, *, examples: int, steps: int, seed: int | None = None, seconds: float = SECONDS
) -> Comparison:
    """Drive the factory's store and the reference with the same random steps: at most ``steps`` choices an example.

    ``seed`` None: one is drawn, and stands in the answer. The factory's ``make`` is called once an example, and many
    times while a failure shrinks. It is not closed here.
    """
    number = secrets.randbits(32) if seed is None else seed
    progress = Progress(seconds)

    class Bound(Machine):
        """Hypothesis makes machines without arguments."""

        def __init__(self) -> None:
            super().__init__(factory, progress)

    restarts = search(Bound, progress, number, examples=examples, steps=steps)
    return Comparison(
        seed=number,
        examples=progress.examples,
        steps=progress.calls.total(),
        calls=progress.calls,
        situations={name: progress.situations[name] for name in REQUIRED},
        freedoms=progress.freedoms,
        out_of_time=progress.is_over,
        restarts=restarts,
        failure=_failure(factory, progress),
    )


def search(machine: type[Machine], progress: Progress, number: int, *, examples: int, steps: int) -> int:
    """Until a difference is found, the time is over or enough was tried. How often it began again."""
    restarts = 0
    while True:
        chosen = settings(
            max_examples=examples - progress.examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate,),  # made small in `shrink.py`
            verbosity=Verbosity.quiet,
            print_blob=False,
        )
        try:
            run_state_machine_as_test(seeded(number + restarts)(machine), settings=chosen)
        except (Disagreement, TimeIsOver):
            return restarts  # what was found is in `progress`
        except Flaky:
            # Hypothesis saw the same draws lead elsewhere. Either a difference did not repeat, or a store took one of
            # its freedoms this time, by its own clock: then there is more to try.
            if progress.found is not None or progress.is_over or progress.examples >= examples:
                return restarts
            restarts += 1
        else:
            return restarts


def _failure(factory: StoreFactory, progress: Progress) -> Failure | None:
    if progress.found is None:
        return None
    found = shrink(factory, progress.found, progress.time_is_over)
    again = replay(factory, found.steps)
    repeats = again is not None and [one.path for one in again.fields] == [one.path for one in found.fields]
    return Failure(found.difference, found.script, len(found.steps), *progress.first, repeats=repeats)
