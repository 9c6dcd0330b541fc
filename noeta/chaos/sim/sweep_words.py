"""What a sweep found, as lines for people: what was not valid and how to have it again, what was tried, the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from invariants import LAWS, SERVER_LAWS
from noeta.chaos.sim.seeded import Strategy
from noeta.chaos.sim.sweep import KEPT_MAX
from noeta.chaos.sim.sweep_found import Found
from noeta.chaos.sim.sweep_unit import DIFFERS

TOLD: Final = 3
"""Seeds told in full; the others are counted."""

TRACEBACK_LINES: Final = 12
"""Of the end of a crash."""


def so_far(found: Found) -> str:
    """One line for a terminal while it runs."""
    bad = f"{found.sums.bad:,} not valid" + (f", {found.troubled:,} in trouble" if found.troubled else "")
    return f"{found.done:,} of {found.plan.seeds:,} seeds, {bad}, {found.seeds_a_minute:,.0f} a minute"


def lines(found: Found, directory: Path) -> Iterator[str]:
    """Everything, the verdict last. ``directory``: where its record and schedules are."""
    if found.began != "new":
        before = found.done - found.ran
        yield f"record: {found.began}" + (f", {before:,} seeds were done before" if before else "")
    yield from _troubles(found, directory)
    yield from _bad(found, directory)
    yield from distribution(found)
    yield _last(found)


def distribution(found: Found) -> Iterator[str]:
    """How different the executions were, and how much happened in them."""
    sums = found.sums
    low, median, high = sums.switches_spread()
    yield f"distinct traces: {_share(found.distinct_traces, sums.executions)}"
    yield f"distinct schedules (switches and strikes): {_share(found.distinct_schedules, sums.executions)}"
    yield f"context switches a seed: least {low:,}, median {median:,}, most {high:,}"
    yield f"kills at distinct points and processes: {len(sums.kills):,}"
    yield f"strikes: {_listed({kind.value: count for kind, count in sums.strikes.items()}) or 'none'}"
    yield f"situations: {_listed(sums.situations) or 'none'}"
    if found.missing:
        yield f"required and never seen: {', '.join(found.missing)}"
    unseen = [law.key for law in LAWS if not sums.seen.get(law.key) and law.key not in SERVER_LAWS]
    yield f"seen by laws: {_listed({key: seen for key, seen in sums.seen.items() if seen}) or 'nothing'}"
    if unseen:
        yield f"laws that saw nothing: {', '.join(unseen)}"
    missed = found.chance_of_missing
    if missed is not None:
        yield (
            f"pct: at most {sums.activities:,} activities and {sums.choices:,} choices; a bug of depth "
            f"{found.plan.pct_depth} that every one of these workloads can show, within as many choices as it has "
            f"without strikes, was missed with a chance of at most {missed:.6g}"
        )
    if found.ran:
        yield (
            f"speed: {found.seeds_a_minute:,.0f} seeds a minute, "
            f"{found.virtual_seconds_a_second:,.0f} virtual seconds a second"
        )


def reproduce(found: Found, seed: int) -> str:
    """The command that has one seed again."""
    plan = found.plan
    how = "" if plan.strategy is Strategy.RANDOM else f" --strategy {plan.strategy}"
    return f"noeta sim --seed {seed}{how} --trace"


def _troubles(found: Found, directory: Path) -> Iterator[str]:
    for one in found.troubles[:TOLD]:
        yield f"HARNESS ERROR: seed {one.seed} {one.what}"
        yield from (f"    {line}" for line in one.lines[-TRACEBACK_LINES:])
        yield from _again(found, directory, DIFFERS, one.seed)
    if found.troubled > TOLD:
        yield f"({found.troubled - TOLD:,} more harness errors)"


def _bad(found: Found, directory: Path) -> Iterator[str]:
    for one in found.bad[:TOLD]:
        yield f"seed {one.seed}: {one.verdict}"
        yield from (f"    {line}" for line in one.why)
        yield from _again(found, directory, one.verdict, one.seed)
    if found.sums.bad > TOLD:
        yield f"({found.sums.bad - TOLD:,} more that are not valid; convicted: {_listed(found.sums.convicted)})"
    if found.kept == KEPT_MAX:
        yield f"(schedules are kept of the first {KEPT_MAX:,})"


def _again(found: Found, directory: Path, what: str, seed: int) -> Iterator[str]:
    kept = directory / f"{what}-{found.plan.strategy}-{seed}.json"
    if kept.exists():
        yield f"    schedule: {kept}"
    yield f"    reproduce: {reproduce(found, seed)}"


def _last(found: Found) -> str:
    sums, plan = found.sums, found.plan
    verdict = "harness error" if found.troubled else str(found.verdict)
    excused = f", {sums.excused:,} of {sums.tasks:,} outcomes excused by faults" if sums.excused else ""
    return (
        f"{verdict}: {sums.executions - sums.bad:,} of {plan.seeds:,} seeds from {plan.first} to {plan.last} "
        f"({plan.strategy}){excused}; {found.repeated:,} run twice and compared; {found.seconds:.1f} s; "
        f"traces {found.trace_hash}"
    )


def _share(count: int, of: int) -> str:
    return f"{count:,} of {of:,} ({count / of:.1%})" if of else "none"


def _listed(counts: Mapping[str, int]) -> str:
    """Names with their counts, the most frequent first."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count:,}" for name, count in ranked)
