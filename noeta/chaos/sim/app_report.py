"""What a search over a user's app found, as data and as lines for people."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from invariants import Verdict, merge
from noeta.chaos.schedule import from_json, to_json
from noeta.chaos.sim.app_replay import anchors, quiet
from noeta.chaos.sim.modes import MODES
from noeta.chaos.sim.replay import replay
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.story import story


@dataclass(frozen=True, slots=True)
class Failure:
    """An execution that was not valid. ``broke``: the keys of what was broken. ``why``: the reasons, a line each.
    ``schedule``: what repeats it, as JSON."""

    app: str
    mode: str
    struck: tuple[str, ...]
    verdict: Verdict
    broke: tuple[str, ...]
    why: tuple[str, ...]
    schedule: str

    @property
    def file_name(self) -> str:
        """Where its schedule may be kept: the same for the same failure."""
        places = [f"{anchor.point}-{anchor.n}" for anchor in anchors(from_json(self.schedule))]
        words = [self.app, *self.broke, self.mode, *places]
        return re.sub(r"[^A-Za-z0-9_]+", "-", "-".join(words)).strip("-") + ".json"

    def lines(self, file: Path | None = None) -> list[str]:
        """Its story, which is played again to be told. ``file``: where its schedule is kept."""
        with quiet():
            told = story(replay(from_json(self.schedule)))
        return told if file is None else [*told, f"schedule: {file}", f"again: noeta sim replay {file} --trace"]


@dataclass(slots=True)
class ModeCount:
    """How many strikes of one kind there were, and how many of them the app survived."""

    mode: str
    strikes: int = 0
    survived: int = 0


@dataclass(slots=True)
class CrashReport:
    """What a search found. ``points``: yield points of the app left in peace. ``situations``: how often what happened,
    by name. ``doubts``: why it would show nothing, however many strikes were survived."""

    app: str
    points: int
    executions: int = 0
    modes: list[ModeCount] = field(default_factory=list)
    situations: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    doubts: tuple[str, ...] = ()

    @property
    def strikes(self) -> int:
        """Over all modes."""
        return sum(mode.strikes for mode in self.modes)

    @property
    def survived(self) -> int:
        """Strikes after which everything was as it must be."""
        return sum(mode.survived for mode in self.modes)

    @property
    def verdict(self) -> Verdict:
        """Of an app that was never struck, or is in doubt: unknown."""
        verdicts = [failure.verdict for failure in self.failures]
        return merge([*verdicts, Verdict.VALID if self.strikes and not self.doubts else Verdict.UNKNOWN])

    def lines(self) -> list[str]:
        """A table: a line per kind of strike, then what happened, then the verdict."""
        lines = [f"{self.app}: {self.points} crash points"]
        for mode in self.modes:
            share = f"{mode.survived}/{mode.strikes}"
            lines.append(f"  {mode.mode:<15} {share:>9} survived  {MODES[mode.mode].title}")
        happened = sorted(self.situations.items(), key=lambda pair: (-pair[1], pair[0]))
        lines.append("  happened: " + (", ".join(f"{name} {count}" for name, count in happened) or "nothing"))
        lines += [f"  in doubt: {doubt}" for doubt in self.doubts]
        lines.append(
            f"{self.verdict.value}: {self.survived} of {self.strikes} strikes survived in {self.executions} executions"
        )
        return lines


def failure_of(mode: str, result: Result) -> Failure:
    """An execution that was not valid, as what is kept of it."""
    broke = tuple(sorted(result.convicted))
    why = tuple(result.why())
    return Failure(result.case, mode, result.struck, result.verdict, broke, why, to_json(result.schedule))


def keep(failure: Failure, directory: Path) -> Path:
    """Write the failure's schedule; the file."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / failure.file_name
    file.write_text(failure.schedule)
    return file
