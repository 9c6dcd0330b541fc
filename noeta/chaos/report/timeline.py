"""The picture of a run: a lane for each worker loop, a bar for each claim that wrote, a mark for each fault.

Bars lie where the entries of a claim lie by the store's clock, so that a worker whose own clock is off stands in
the right place. SVG as text; no script, nothing from outside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from invariants import FaultSeen, RunFacts, TaskEvidence
from invariants.wording import instant, kind
from noeta.chaos.schedule import CALL_KINDS, WIRE_KINDS
from noeta.core.events import Ending, TaskSuspended
from noeta.core.ids import MICROS_PER_SECOND

BARS_MAX: Final = 4_000
"""More than a page can show; the rest is counted."""
LANE: Final = 16
LEFT: Final = 70
TOP: Final = 34
PIXELS_PER_SECOND: Final = 26
WIDTH_MAX: Final = 12_000
_STYLES: Final = {
    "pause": "pause",
    "db_restart": "database",
    "db_kill": "database",
    "skew": "skew",
    **{kind.value: "call" for kind in CALL_KINDS | WIRE_KINDS},
}
"""How a kind of fault is drawn; all others end a process."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What one claim wrote to one task. ``end``: ``rested``, ``ended``, or ``cut`` if the next epoch went on."""

    lane: str
    task: str
    epoch: int
    first_at: int
    last_at: int
    words: str
    end: str


def bars_of(task: TaskEvidence, run: RunFacts) -> Iterator[Bar]:
    """The claims of one task that wrote something; one that was struck lasts until then."""
    by_epoch: dict[int, list[int]] = {}
    for place, entry in enumerate(task.log):
        if entry.epoch > 0:
            by_epoch.setdefault(entry.epoch, []).append(place)
    for epoch, places in by_epoch.items():
        entries = [task.log[place] for place in places]
        last = entries[-1]
        end = (
            "rested" if isinstance(last.event, TaskSuspended) else "ended" if isinstance(last.event, Ending) else "cut"
        )
        kinds = ", ".join(kind(entry.event) for entry in entries[:12]) + (" …" if len(entries) > 12 else "")
        words = f"seq {entries[0].seq}-{last.seq}: {kinds}"
        last_at = last.at
        struck = run.held_when_struck(task.task, epoch)
        if end == "cut" and struck is not None:
            last_at = max(last_at, struck.at)
            words += f"; then {struck.kind} hit {struck.process}"
        yield Bar(task.holder(epoch), task.task, epoch, entries[0].at, last_at, words, end)


def drawing(bars: Sequence[Bar], faults: Sequence[FaultSeen], lanes: Iterable[str]) -> str:
    """The picture, as an ``svg`` element; empty if there is nothing to draw."""
    shown = sorted(bars, key=lambda bar: bar.first_at)[:BARS_MAX]
    instants = [at for bar in shown for at in (bar.first_at, bar.last_at)]
    instants += [at for fault in faults for at in (fault.at, fault.ended_at or fault.at)]
    if not instants:
        return ""
    names = sorted({*lanes, *(bar.lane for bar in shown)}, key=_natural)
    place = {name: number for number, name in enumerate(names)}
    first, last = min(instants), max(instants)
    seconds = max(1.0, (last - first) / MICROS_PER_SECOND)
    scale = min(PIXELS_PER_SECOND, WIDTH_MAX / seconds)
    width, height = LEFT + seconds * scale + 20, TOP + LANE * len(names) + 10

    def x(at: int) -> float:
        return LEFT + (at - first) / MICROS_PER_SECOND * scale

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" role="img" '
            f'aria-label="claims and faults per worker over time">'
        )
    ]
    for name, number in place.items():
        y = TOP + number * LANE
        parts.append(f'<rect class="lane{number % 2}" x="0" y="{y}" width="{width:.0f}" height="{LANE}"/>')
        parts.append(f'<text x="4" y="{y + 12}">{escape(name)}</text>')
    step = 5 if seconds <= 200 else 30
    for second in range(0, int(seconds) + 1, step):
        at = LEFT + second * scale
        parts.append(f'<line class="grid" x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{height - 10}"/>')
        parts.append(f'<text x="{at + 2:.1f}" y="{TOP - 4}">{second} s</text>')
    parts += [_fault(fault, place, x, height) for fault in faults]
    for bar in shown:
        y = TOP + place[bar.lane] * LANE + 3
        wide = max(2.0, x(bar.last_at) - x(bar.first_at))
        title = f"{bar.task} epoch {bar.epoch} on {bar.lane}, {instant(bar.first_at)}\n{bar.words}"
        parts.append(
            f'<rect class="{bar.end}" x="{x(bar.first_at):.1f}" y="{y}" width="{wide:.1f}" height="{LANE - 6}">'
            f"<title>{escape(title)}</title></rect>"
        )
    parts.append("</svg>")
    return "\n".join(parts)


def _fault(fault: FaultSeen, place: dict[str, int], x: Callable[[int], float], height: int) -> str:
    """A mark over the lanes of the process it hit, or over all of them."""
    process = fault.process.split("#")[0]
    hit = [number for name, number in place.items() if name == process or name.startswith(f"{process}-")]
    top = TOP + LANE * min(hit) if hit else TOP - 12
    bottom = TOP + LANE * (max(hit) + 1) if hit else height - 10
    held = ", ".join(f"{one.task}@{one.epoch}" for one in fault.held) or "no claim"
    title = escape(f"{fault.kind} hit {fault.process} at {instant(fault.at)}, which held {held}")
    wide = max(2.0, (x(fault.ended_at) - x(fault.at)) if fault.ended_at is not None else 2.0)
    style = _STYLES.get(fault.kind, "kill")
    if style in ("kill", "skew"):
        wide = 2.0
    return (
        f'<rect class="{style}" x="{x(fault.at):.1f}" y="{top}" width="{wide:.1f}" height="{bottom - top}">'
        f"<title>{title}</title></rect>"
    )


def _natural(name: str) -> list[int | str]:
    """``w2`` before ``w10``; all keys begin with text, so that they compare."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", f"~{name}")]
