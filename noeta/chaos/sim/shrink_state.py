"""How far shrinking has come, as a file beside the schedule, so that a second call goes on from there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import msgspec

from noeta.chaos.schedule import Schedule, to_json
from noeta.core.errors import BadInput
from noeta.core.ids import sha256_text

FORMAT: Final = 1
SUFFIX: Final = ".shrinking"


class State(msgspec.Struct, frozen=True):
    """``of``: the SHA-256 of the schedule that was given. ``best``: the smallest one that breaks ``law`` so far.
    ``settled``: the passes that found nothing smaller than it. ``executions`` and ``seconds`` over all calls."""

    of: str
    law: str
    best: Schedule
    settled: tuple[str, ...] = ()
    executions: int = 0
    seconds: float = 0.0
    format: int = FORMAT


def state_beside(file: Path) -> Path:
    """Where the state of shrinking this schedule's file is kept."""
    return file.with_name(file.name + SUFFIX)


def name_of(schedule: Schedule) -> str:
    """What a state is of."""
    return sha256_text(to_json(schedule))


def read_state(file: Path) -> State | None:
    """The state in this file; None if there is no such file.

    Raises:
        BadInput: the file holds something else, which is not to be overwritten.
    """
    try:
        body = file.read_bytes()
    except FileNotFoundError:
        return None
    try:
        state = msgspec.json.decode(body, type=State)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(str(file), f"expected the state of a shrinking, found {error}") from error
    if state.format != FORMAT:
        raise BadInput(str(file), f"expected format {FORMAT}, found {state.format}")
    return state


def write_state(file: Path, state: State) -> None:
    """Put it there whole, or not at all."""
    passing = file.with_name(f".{file.name}.new")
    passing.write_text(json.dumps(msgspec.to_builtins(state), indent=1, sort_keys=True) + "\n", encoding="ascii")
    passing.replace(file)
