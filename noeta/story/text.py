"""Instants, spans, names and texts, as a person reads them on one line.

What tasks and models say is data: it is quoted and cut, and characters that a terminal would obey are escaped.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from noeta.core.ids import MICROS_PER_SECOND

TEXT_CHARS_MAX: Final = 120
"""What a line shows of a text; `--json` has all of it."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE: Final = 60 * MICROS_PER_SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


def instant(at: int, *, digits: int = 0) -> str:
    """Microseconds since the epoch as a date and time in UTC, with so many digits (0, 3 or 6) of its second."""
    try:
        when = _EPOCH + timedelta(microseconds=at)
    except OverflowError:  # a tool's own timer may be set beyond what a calendar names
        return f"{at / MICROS_PER_SECOND:.0f} s from 1970"
    timespec = {0: "seconds", 3: "milliseconds", 6: "microseconds"}[digits]
    return when.replace(tzinfo=None).isoformat(" ", timespec) + "Z"


def span(micros: int) -> str:
    """How long, in units that say something: ``0.004 s``, ``2.3 s``, ``3 min 02 s``, ``3 h 00 min``, ``2 d 05 h``."""
    if micros < 0:
        return "-" + span(-micros)
    if micros < MICROS_PER_SECOND:
        return f"{micros / MICROS_PER_SECOND:.3f} s"
    if micros < _MINUTE:
        return f"{micros / MICROS_PER_SECOND:.1f} s"
    if micros < _HOUR:
        return f"{micros // _MINUTE} min {micros % _MINUTE // MICROS_PER_SECOND:02d} s"
    if micros < _DAY:
        return f"{micros // _HOUR} h {micros % _HOUR // _MINUTE:02d} min"
    return f"{micros // _DAY:,} d {micros % _DAY // _HOUR:02d} h"


def clock(micros: int) -> str:
    """How long after the beginning, to be read down a column: ``+0.004``, ``+3:02.500``, ``+3:00:00.000``."""
    sign, micros = ("-", -micros) if micros < 0 else ("+", micros)
    millis = micros // 1_000
    minutes, millis = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    seconds = f"{millis // 1_000}.{millis % 1_000:03d}"
    if not (days or hours or minutes):
        return sign + seconds
    seconds = seconds.zfill(6)
    if not (days or hours):
        return f"{sign}{minutes}:{seconds}"
    day = f"{days}d " if days else ""
    return f"{sign}{day}{hours}:{minutes:02d}:{seconds}"


def name(value: str) -> str:
    """An id or a name: as it is, or quoted if a line could not hold it."""
    return value if value.isprintable() and " " not in value else quoted(value, most=len(value))


def quoted(text: str, *, most: int = TEXT_CHARS_MAX) -> str:
    """A text in quotes, on one line; a long one is cut, with a word about how much more there is."""
    return _escaped(json.dumps(text[:most], ensure_ascii=False)) + _more(len(text) - most)


def value(given: Any, *, most: int = TEXT_CHARS_MAX) -> str:
    """A JSON value on one line, cut as texts are."""
    shown = json.dumps(given, ensure_ascii=False)
    return _escaped(shown[:most]) + _more(len(shown) - most)


def one_line(error: Exception) -> str:
    """What an error says, without the line breaks that drivers put into it."""
    return " ".join(str(error).split())


def _escaped(shown: str) -> str:
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in shown)


def _more(chars: int) -> str:
    return "" if chars <= 0 else f"… ({chars:,} more character{'s' if chars > 1 else ''})"
