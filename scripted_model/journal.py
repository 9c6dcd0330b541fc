"""Where tools write that they had an effect: outside the store, so that no transaction can take it back.

One line per effect, in one write to a file that only ever grows, one file per worker process. A killed
process may leave its last line torn; readers count torn lines and go on. Deaths that a script asks for are
announced in files of their own: a token names an effect and nothing else. So are the lines of background shells,
which append them themselves (``jobs.py``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

import msgspec

LINE_BYTES_MAX: Final = 4096
"""A line is shorter than this: one page, one write, whole or torn at its end."""

EFFECTS_SUFFIX: Final = ".effects.jsonl"
DEATHS_SUFFIX: Final = ".deaths.jsonl"
JOBS_SUFFIX: Final = ".jobs.jsonl"


class Effect(msgspec.Struct, frozen=True):
    """One effect. ``tag`` is the call's name in its script, ``time`` seconds by the worker's clock."""

    token: str
    task: str
    call: str
    tool: str
    tag: str
    start: int
    worker: str
    pid: int
    time: float


class Death(msgspec.Struct, frozen=True):
    """A worker is about to die because a script says so; ``call`` is empty if a model call kills it."""

    task: str
    call: str
    start: int
    worker: str
    pid: int
    time: float


class JobLine(msgspec.Struct, frozen=True):
    """A line that a background shell wrote, its ``number``-th; ``by`` whom of its tree. ``job`` is the id of the call
    that started it, and of the job; ``time`` by the machine's clock, taken before the line was written."""

    task: str
    job: str
    tag: str
    by: str
    number: int
    worker: str
    pid: int
    time: float


class JournalFailed(OSError):
    """The line was not written, or not whole."""


class Journal(Protocol):
    """What tools need of a journal. It belongs to one worker process."""

    def effect(self, *, task: str, call: str, tool: str, tag: str, start: int) -> None:
        """Record an effect; durable against the death of the process when it returns."""
        ...

    def death(self, *, task: str, call: str, start: int) -> None:
        """Announce that this worker is about to die."""
        ...

    def find(self, task: str, call: str) -> Effect | None:
        """The first effect of a call that any worker recorded, at whatever start."""
        ...


def token_of(task: str, call: str, start: int) -> str:
    """The token of one start of a call: journalled at most once, by anybody. Keeps: effect-at-most-once."""
    return f"{task}:{call}:{start}"


_L = TypeVar("_L", Effect, Death, JobLine)


@dataclass(slots=True)
class _Lines:
    """One file that only grows."""

    path: Path
    _descriptor: int = field(init=False)
    _torn: bool = field(init=False)

    def __post_init__(self) -> None:
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        size = os.fstat(self._descriptor).st_size
        # A process of the same name and pid died in a write: its torn line must not swallow ours.
        self._torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"

    def add(self, line: Effect | Death) -> None:
        data = (b"\n" if self._torn else b"") + msgspec.json.encode(line) + b"\n"
        if len(data) >= LINE_BYTES_MAX:
            raise JournalFailed(f"a journal line is below {LINE_BYTES_MAX} bytes, found {len(data)}")
        written = os.write(self._descriptor, data)
        self._torn = written != len(data)
        if self._torn:
            raise JournalFailed(f"wrote {written} of {len(data)} bytes to {self.path.name}")

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class FileJournal:
    """The journal of one worker process, in a directory that all workers share."""

    def __init__(
        self,
        directory: Path,
        worker: str,
        *,
        pid: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._directory, self._worker, self._clock = directory, worker, clock
        self._pid = os.getpid() if pid is None else pid
        directory.mkdir(parents=True, exist_ok=True)
        stem = f"{quote(worker, safe='')}-{self._pid}"
        self._effects = _Lines(directory / f"{stem}{EFFECTS_SUFFIX}")
        self._deaths = _Lines(directory / f"{stem}{DEATHS_SUFFIX}")

    def effect(self, *, task: str, call: str, tool: str, tag: str, start: int) -> None:
        """As ``Journal.effect``.

        Raises:
            JournalFailed.
        """
        token = token_of(task, call, start)
        self._effects.add(Effect(token, task, call, tool, tag, start, self._worker, self._pid, self._clock()))

    def death(self, *, task: str, call: str, start: int) -> None:
        """As ``Journal.death``."""
        self._deaths.add(Death(task, call, start, self._worker, self._pid, self._clock()))

    def find(self, task: str, call: str) -> Effect | None:
        """As ``Journal.find``: looks through the files of every worker, dead ones included."""
        needle = msgspec.json.encode(task)
        for path in _paths(self._directory, EFFECTS_SUFFIX):
            for raw in path.read_bytes().split(b"\n"):
                effect = _decoded(raw, Effect) if needle in raw else None
                if effect is not None and (effect.task, effect.call) == (task, call):
                    return effect
        return None

    def close(self) -> None:
        """Close the files; what was written stays."""
        self._effects.close()
        self._deaths.close()


@dataclass(frozen=True, slots=True)
class JournalContents:
    """All lines of a journal directory, by file and in the order written, and how many lines were torn."""

    effects: tuple[Effect, ...]
    deaths: tuple[Death, ...]
    torn: int
    jobs: tuple[JobLine, ...] = ()


def read_journal(directory: Path) -> JournalContents:
    """Everything every worker wrote so far. Lines that cannot be read are counted, never guessed at."""
    effects, torn_effects = _whole(_lines(directory, EFFECTS_SUFFIX, Effect))
    deaths, torn_deaths = _whole(_lines(directory, DEATHS_SUFFIX, Death))
    jobs, torn_jobs = _whole(_lines(directory, JOBS_SUFFIX, JobLine))
    return JournalContents(effects, deaths, torn_effects + torn_deaths + torn_jobs, jobs)


@dataclass(slots=True)
class JournalBook:
    """What all simulated workers wrote: the directory of a ``FileJournal``, in memory."""

    effects: list[Effect] = field(default_factory=list)
    deaths: list[Death] = field(default_factory=list)
    jobs: list[JobLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MemoryJournal:
    """The journal of one simulated worker."""

    book: JournalBook
    worker: str
    clock: Callable[[], float]
    pid: int = 0

    def effect(self, *, task: str, call: str, tool: str, tag: str, start: int) -> None:
        """As ``Journal.effect``."""
        token = token_of(task, call, start)
        self.book.effects.append(Effect(token, task, call, tool, tag, start, self.worker, self.pid, self.clock()))

    def death(self, *, task: str, call: str, start: int) -> None:
        """As ``Journal.death``."""
        self.book.deaths.append(Death(task, call, start, self.worker, self.pid, self.clock()))

    def find(self, task: str, call: str) -> Effect | None:
        """As ``Journal.find``."""
        return next((e for e in self.book.effects if (e.task, e.call) == (task, call)), None)


def _paths(directory: Path, suffix: str) -> list[Path]:
    return sorted(directory.glob(f"*{suffix}"))


def _lines(directory: Path, suffix: str, kind: type[_L]) -> Iterator[_L | None]:
    for path in _paths(directory, suffix):
        for raw in path.read_bytes().split(b"\n"):
            if raw:
                yield _decoded(raw, kind)


def _whole(lines: Iterator[_L | None]) -> tuple[tuple[_L, ...], int]:
    """The lines that can be read, and how many cannot."""
    found = list(lines)
    whole = tuple(line for line in found if line is not None)
    return whole, len(found) - len(whole)


def _decoded(raw: bytes, kind: type[_L]) -> _L | None:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
