"""Reading a tool's input: what the model wrote, or a refusal that names the field, the limit and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from noeta.core.errors import BadInput
from noeta.core.limits import DELAY_SECONDS_MAX
from noeta.core.lower import is_finite


def fields(input: Any, *known: str) -> Mapping[str, Any]:
    """The input as an object that holds none but these fields."""
    if not isinstance(input, dict):
        raise BadInput("input", f"expected an object with {', '.join(known)}, found {type(input).__name__}")
    for name in input:
        if name not in known:
            raise BadInput(str(name)[:200], f"no such field; there are {', '.join(known)}")
    return input


def text(given: Mapping[str, Any], name: str, *, default: str | None = None) -> str:
    """A text that says something."""
    value = given.get(name, default)
    if not isinstance(value, str) or (not value and default is None):
        raise BadInput(name, f"expected a text that is not empty, found {value!r:.200}")
    return value


def flag(given: Mapping[str, Any], name: str) -> bool:
    """A truth value; false if it is not there."""
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise BadInput(name, f"expected true or false, found {value!r:.200}")
    return value


def several(given: Mapping[str, Any], name: str, most: int) -> Sequence[Any]:
    """A list of at least one and at most so many."""
    value = given.get(name)
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= most:
        found = len(value) if isinstance(value, list | tuple) else repr(value)[:200]
        raise BadInput(name, f"expected a list of 1 to {most}, found {found}")
    return value


def span(given: Mapping[str, Any], name: str) -> float | None:
    """A span in seconds, at least 0; None if it is not there."""
    value = given.get(name)
    if value is None:
        return None
    if not is_finite(value):
        raise BadInput(name, f"expected a finite number of seconds, found {value!r:.200}")
    if not 0 <= value <= DELAY_SECONDS_MAX:
        raise BadInput(name, f"from 0 to {DELAY_SECONDS_MAX:g} seconds, found {value!r}")
    return float(value)


def instant(given: Mapping[str, Any], name: str) -> float | None:
    """An instant in seconds since the epoch, written with its offset from UTC; None if it is not there."""
    value = given.get(name)
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise BadInput(
            name, f"expected a date and time like 2026-12-01T09:00:00+01:00, found {value!r:.200}"
        ) from error
    if at.tzinfo is None:
        raise BadInput(name, f"must say its offset from UTC (like +01:00 or Z), found {value!r:.200}")
    return at.timestamp()
