"""One certification: its parts one after another, the card as it comes, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from invariants import Verdict
from noeta.chaos.certify.asked import PARTS, SHARED_PARTS, Asked
from noeta.chaos.certify.candidate import Candidate, load
from noeta.chaos.certify.card import NOT_COVERED, Card, Line
from noeta.chaos.certify.part_process import HARNESS, lines_of
from noeta.chaos.reaper import Reapers
from noeta.testing.postgres import Server, find_source
from noeta.testing.postgres.source import DSN_VARIABLE, FORCE_VARIABLE

SUBJECT_ALL: Final = "all"
ONE_PROCESS: Final = "the store lives in one process (shared = False)"


def certify(asked: Asked, tell: Callable[[str], None]) -> Card:
    """Play every part that was asked for, and say each line of the card as it comes.

    Raises:
        BadInput: the store cannot be loaded; before anything was done.
        NoPostgres: Postgres was asked for and there is none.
    """
    candidate = load(asked.store)
    about = "" if candidate.shared else " (of a store that lives in one process)"
    card = Card(asked.store, version("noeta"), asked.seed, asked.command(), [], 0.0, about=about)
    tell(f"store={card.store} noeta={card.version} seed={card.seed} verdict=pending reproduce: {card.command}")
    began = time.monotonic()
    with ExitStack() as stack:
        reapers = stack.enter_context(Reapers())
        root = Path(tempfile.mkdtemp(prefix="noeta-certify-"))
        if asked.keep:
            tell(f"kept: {root}")
        else:
            stack.callback(reapers.withdraw, reapers.directory(root))
            stack.callback(shutil.rmtree, root)
        environ = _environ(asked.store, stack)
        lines: list[Line] = []
        for part in PARTS:
            if asked.wants(part):
                for line in _lines(asked, candidate, part, root, reapers, environ, lines):
                    lines.append(msgspec.structs.replace(line, rerun=_rerun(asked, line)))
                    tell(lines[-1].text(story=asked.tells_stories))
            if asked.stop_at_first and any(line.verdict == Verdict.INVALID for line in lines):
                break
    failed = any(line.subject == HARNESS for line in lines)
    return replace(card, lines=lines, seconds=time.monotonic() - began, failed=failed)


def _lines(
    asked: Asked,
    candidate: Candidate,
    part: str,
    root: Path,
    reapers: Reapers,
    environ: Mapping[str, str],
    before: list[Line],
) -> Iterator[Line]:
    """A part, or why it is not played."""
    if part in SHARED_PARTS and not candidate.shared:
        yield Line(part, SUBJECT_ALL, "several processes at one place", NOT_COVERED, why=ONE_PROCESS)
    elif part == "storm" and not asked.storm_seconds:
        yield Line(part, SUBJECT_ALL, "real workers in a storm", Verdict.UNKNOWN, why="not played: --no-storm")
    elif any((line.part, line.verdict) == ("factory", "invalid") and line.subject == "place" for line in before):
        why = "not played: the function itself does not keep its word"
        yield Line(part, SUBJECT_ALL, "what stands on the function", Verdict.UNKNOWN, why=why)
    else:
        (root / part).mkdir()
        yield from lines_of(asked.order(part, str(root / part)), reapers, environ)


def _rerun(asked: Asked, line: Line) -> str:
    return asked.command(line.part, None if line.subject in (SUBJECT_ALL, HARNESS) else line.subject)


def _environ(store: str, stack: ExitStack) -> Mapping[str, str]:
    """What the processes of the parts see. For this project's Postgres: the server that they all use."""
    if store != "postgres":
        return os.environ
    server = stack.enter_context(Server(find_source(os.environ)))
    plain = {name: value for name, value in os.environ.items() if name != FORCE_VARIABLE}
    return plain | {DSN_VARIABLE: server.dsn}
