"""``report.html``: one page that needs nothing else: the picture, the laws, what happened, what is broken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Final

from invariants import FaultSeen, Verdict, explain
from invariants.wording import instant
from noeta.chaos.evidence_dir import CUTS
from noeta.chaos.evidence_reader import DirEvidence
from noeta.chaos.proxy import CutLine, read_cuts
from noeta.chaos.report.lines import HONEST, config_words, reproduce, summary
from noeta.chaos.report.timeline import BARS_MAX, Bar, bars_of, drawing
from noeta.chaos.situations import SITUATIONS
from noeta.chaos.verdicts import Judgement

ANOMALIES_SHOWN: Final = 10

_STYLE: Final = """
:root { color-scheme: light; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 24px; color: #1c2430; background: #fff; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 28px 0 8px; }
code, pre, svg text { font-family: ui-monospace, monospace; font-size: 12px; }
pre { background: #f5f6f8; padding: 10px; overflow-x: auto; border-radius: 4px; }
table { border-collapse: collapse; } td, th { text-align: left; padding: 3px 14px 3px 0; vertical-align: top;
  border-bottom: 1px solid #e6e8ec; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
.valid { color: #11703c; } .invalid { color: #b3261e; } .unknown { color: #8a5a00; } b.badge { font-size: 22px; }
.scroll { overflow-x: auto; border: 1px solid #e6e8ec; }
svg .lane0 { fill: #fafbfc; } svg .lane1 { fill: #f1f3f6; } svg .grid { stroke: #dfe3e8; }
svg text { fill: #55606e; font-size: 11px; }
svg .rested { fill: #7ea6d9; } svg .ended { fill: #4f9d69; } svg .cut { fill: #e39a3b; }
svg .kill { fill: #b3261e; } svg .pause { fill: #6b4fa0; opacity: .22; } svg .database { fill: #333; opacity: .12; }
svg .skew { fill: #2a7f9e; } svg .call { fill: #b5468b; opacity: .45; }
.key span { display: inline-block; width: 12px; height: 12px; margin: 0 4px 0 14px; vertical-align: -1px; }
"""

_KEY: Final = (
    ("#4f9d69", "claim that ended its task"),
    ("#7ea6d9", "claim that ended in a wait"),
    ("#e39a3b", "claim cut short, or still open"),
    ("#b3261e", "process ended"),
    ("#c9bedf", "pause"),
    ("#d9d9d9", "database down"),
    ("#2a7f9e", "clock set off"),
    ("#d9a3c6", "store call spoiled, or its connection cut"),
)


def page(evidence: DirEvidence, judgement: Judgement) -> str:
    """The page of one run."""
    bars: list[Bar] = []
    dropped = 0
    for task in evidence.tasks():
        found = list(bars_of(task, judgement.facts))
        room = max(0, BARS_MAX - len(bars))
        bars += found[:room]
        dropped += max(0, len(found) - room)
    run, verdict = judgement.run, judgement.verdict.value
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{verdict}: seed {escape(str(run.get("seed")))}</title>',
        f"<style>{_STYLE}</style></head><body>",
        f'<h1>Storm of seed {escape(str(run.get("seed")))}: <b class="badge {verdict}">{verdict}</b></h1>',
        (
            f"<p>{escape(str(run.get('started_at')))}, commit <code>{escape(str(run.get('commit')))}</code>, "
            f"{escape(config_words(run))}<br><code>{escape(reproduce(run))}</code><br>{escape(HONEST)}</p>"
        ),
        *_doubts(judgement),
        *_anomalies(judgement),
        "<h2>Workers over time</h2>",
        '<p class="key">' + "".join(f'<span style="background:{c}"></span>{escape(w)}' for c, w in _KEY) + "</p>",
        f'<div class="scroll">{drawing(bars, judgement.facts.faults, _lanes(judgement))}</div>',
        f"<p>{dropped} more claims are not drawn.</p>" if dropped else "",
        "<h2>Laws</h2>",
        *_laws(judgement),
        "<h2>What happened</h2>",
        *_table(("situation", "times", "meaning"), _situations(judgement.situations)),
        "<h2>Figures</h2>",
        *_table(("what", "how many"), ((name, count) for name, count in sorted(judgement.figures.items()))),
        "<h2>Faults that struck</h2>",
        *_table(("at", "kind", "process", "healed at", "claims held"), _faults(judgement.facts.faults)),
        *_wire(read_cuts(evidence.dir.path(CUTS))),
        "<h2>Summary</h2>",
        f"<pre>{escape(chr(10).join(summary(judgement)))}</pre>",
        "</body></html>",
    ]
    return "\n".join(parts)


def _lanes(judgement: Judgement) -> Iterator[str]:
    config = judgement.run.get("config") or {}
    for worker in range(1, config.get("workers", 0) + 1):
        for loop in range(1, config.get("concurrency", 0) + 1):
            yield f"w{worker}-{loop}"


def _doubts(judgement: Judgement) -> Iterator[str]:
    if judgement.doubts:
        yield "<h2>What is in doubt</h2><ul>"
        yield from (f"<li>{escape(doubt)}</li>" for doubt in judgement.doubts)
        yield "</ul>"


def _anomalies(judgement: Judgement) -> Iterator[str]:
    if judgement.report.verdict is not Verdict.INVALID:
        return
    yield "<h2>What is broken</h2>"
    for anomaly in list(judgement.report.anomalies())[:ANOMALIES_SHOWN]:
        yield f"<pre>{escape(explain(anomaly, judgement.facts))}</pre>"


def _laws(judgement: Judgement) -> Iterator[str]:
    yield "<table><tr><th>law</th><th>verdict</th><th>saw</th><th>statement</th></tr>"
    for one in judgement.report.laws:
        why = "" if one.verdict is Verdict.VALID else f"<br><b>{escape(one.why())}</b>"
        yield (
            f'<tr><td><code>{escape(one.law.key)}</code></td><td class="{one.verdict.value}">{one.verdict.value}</td>'
            f'<td class="n">{one.seen}</td><td>{escape(one.law.statement)}{why}</td></tr>'
        )
    yield "</table>"


def _situations(found: Mapping[str, int]) -> Iterator[tuple[object, ...]]:
    for name, meaning in SITUATIONS.items():
        yield name, found.get(name, 0), meaning


def _faults(faults: Sequence[FaultSeen]) -> Iterator[tuple[object, ...]]:
    for fault in sorted(faults, key=lambda one: one.at):
        held = ", ".join(f"{one.task}@{one.epoch}" for one in fault.held)
        yield instant(fault.at), fault.kind, fault.process, instant(fault.ended_at) if fault.ended_at else "", held


def _wire(cuts: Sequence[CutLine]) -> Iterator[str]:
    if cuts:
        yield "<h2>Commits cut on the wire</h2>"
        rows = (
            (instant(cut.at), cut.process, cut.verb, cut.facts.get("task", ""), cut.outcome, cut.why) for cut in cuts
        )
        yield from _table(("at", "process", "verb", "task", "outcome", "what the server answered"), rows)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> Iterator[str]:
    yield "<table><tr>" + "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr>"
    for row in rows:
        cells = (
            f'<td class="n">{cell}</td>' if isinstance(cell, int) else f"<td>{escape(str(cell))}</td>" for cell in row
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table>"
