"""The directory a run leaves behind: who writes which file, and how a line gets into it whole.

Every run writes ``runs/<utc>-<seed>/`` from its first moment on, so that a crash of the harness loses nothing that
was seen. Files of lines only ever grow, one write a line; a killed process may leave its last line torn, and
readers count torn lines and go on (`evidence_reader.py`).

::

    run.json        seed, configuration, versions, commit; at the end the verdict
    schedule.json   the faults that were planned
    workload.json   the tasks and messages that were planned
    history.jsonl   what clients asked of the store: a line before it was sent, a line after the answer
    faults.jsonl    the faults that struck, with the claims that the struck processes held
    cuts.jsonl      commits whose connection the proxy cut, with what became of each by the server's answer
    rows.jsonl      task rows, whenever the sampler saw one changed
    locks.jsonl     looks at the locks of the workers' sessions, of a store that is a server
    attempts/       what each worker asked of the store, a file a process
    journal/        side effects, announced deaths and lines of background shells, a file a process; journal.jsonl is
                    all of them together
    log.jsonl       every task's log; finals.jsonl: every task's row at the end of it
    results.json, explain.md, report.html
    workers/*.log   what each worker said
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

LATEST: Final = "latest"
SEED_CHARS_MAX: Final = 40
"""A seed of any length is allowed; its directory name is cut there."""

RUN, SCHEDULE, WORKLOAD, RESULTS = "run.json", "schedule.json", "workload.json", "results.json"
HISTORY, FAULTS, CUTS, ROWS = "history.jsonl", "faults.jsonl", "cuts.jsonl", "rows.jsonl"
LOCKS = "locks.jsonl"
LOG, FINALS, JOURNAL = "log.jsonl", "finals.jsonl", "journal.jsonl"
EXPLAIN, REPORT = "explain.md", "report.html"

_encoder: Final = msgspec.json.Encoder()


class LogLine(msgspec.Struct, frozen=True):
    """One entry in ``log.jsonl``. ``body``: the stored bytes, as text, so that their hash can be taken again."""

    task: str
    seq: int
    epoch: int
    at: int
    body: str


class LineWriter:
    """A file of lines that only grows; one write a line. For several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = 0
        self._lock = threading.Lock()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")  # a torn line of before must not swallow ours

    def add(self, line: object) -> None:
        """Write one value as one line of JSON. After ``close``: nothing, because late threads may still speak."""
        data = memoryview(_encoder.encode(line) + b"\n")
        with self._lock:
            if self._descriptor < 0:
                return
            while data:
                data = data[os.write(self._descriptor, data) :]
            self.written += 1

    def close(self) -> None:
        """Close the file; what was written stays."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


@dataclass(frozen=True, slots=True)
class RunDir:
    """The paths of one run."""

    root: Path

    @property
    def workers(self) -> Path:
        """Logs of worker processes."""
        return self.root / "workers"

    @property
    def attempts(self) -> Path:
        """What workers asked of the store."""
        return self.root / "attempts"

    @property
    def journal(self) -> Path:
        """What tools wrote."""
        return self.root / "journal"

    def path(self, name: str) -> Path:
        """A file of the run by its name above."""
        return self.root / name

    def lines(self, name: str) -> LineWriter:
        """A writer for a file of lines."""
        return LineWriter(self.path(name))

    def write_text(self, name: str, text: str | bytes) -> None:
        """Write a whole file so that no reader ever sees half of it."""
        data = text.encode(errors="backslashreplace") if isinstance(text, str) else text
        passing = self.path(f".{name}.new")
        passing.write_bytes(data)
        passing.replace(self.path(name))

    def write_json(self, name: str, value: Any) -> None:
        """Write a value as readable JSON with sorted keys: the same value gives the same bytes."""
        plain = msgspec.to_builtins(value, str_keys=True)
        self.write_text(name, json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=True) + "\n")

    def read_json(self, name: str) -> Any:
        """A whole JSON file; None if the run did not get that far (or was killed while it began)."""
        try:
            return msgspec.json.decode(self.path(name).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None

    def update_run(self, **facts: Any) -> None:
        """Add facts to ``run.json``."""
        self.write_json(RUN, {**(self.read_json(RUN) or {}), **facts})

    def collect_journal(self) -> int:
        """Put all journals of the workers together in ``journal.jsonl``; how many lines were copied."""
        lines = 0
        with self.path(JOURNAL).open("wb") as out:
            for path in sorted(self.journal.glob("*.jsonl")):
                for raw in path.read_bytes().split(b"\n"):
                    if raw:
                        out.write(raw + b"\n")
                        lines += 1
        return lines


def create_run_dir(runs: Path, seed: str, now: datetime | None = None) -> RunDir:
    """Make the directory of a new run and point ``latest`` at it.

    Raises:
        OSError: the runs' directory cannot be written.
    """
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", seed)[:SEED_CHARS_MAX]
    runs.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, 1_000):
        root = runs / (f"{stamp}-{safe}" if attempt == 1 else f"{stamp}-{safe}-{attempt}")
        try:
            root.mkdir()
        except FileExistsError:
            continue
        break
    else:
        raise FileExistsError(f"{root} and a thousand like it exist already")
    run = RunDir(root)
    for folder in (run.workers, run.attempts, run.journal):
        folder.mkdir()
    _point_latest(runs, root)
    return run


def _point_latest(runs: Path, root: Path) -> None:
    passing = runs / f".{LATEST}.{os.getpid()}"
    passing.unlink(missing_ok=True)
    passing.symlink_to(root.name)
    target = runs / LATEST
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(passing, ignore_errors=True)
        return  # somebody keeps a real directory of that name: it is theirs
    passing.replace(target)
