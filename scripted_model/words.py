"""The texts of scripted models, tools and clients: functions of the script and the position, nothing else.

Every text of the model ends in a checksum over the whole script and the position, so that a reply given at
the wrong place is visible in the log without knowing the course.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from noeta.core import codec
from noeta.core.ids import sha256_text
from scripted_model.script import Odd, Script

ODD_TEXTS: Final = MappingProxyType(
    {
        Odd.NUL: "before\x00after",
        Odd.SURROGATE: "high \ud83d alone, low \udc0d alone, turned \udc0d\ud83d",
        Odd.RIGHT_TO_LEFT: "\u202eשלום עולם\u202c مرحبا \u2067x\u2069",
        Odd.ASTRAL: "𝔘𝔫𝔦 👩\u200d👩\u200d👧 🏴\U000e0067\U000e007f \U0010ffff",
        Odd.CONTROLS: "\ufeff\u2028\u2029\x1b[31m\x7f\x85\\u0000 \\ud83d \"'\r\n",
    }
)
"""One text of each kind. The backslashes of ``CONTROLS`` are characters: unescaping them twice shows."""

POSTED_ODD: Final = (Odd.NUL, Odd.RIGHT_TO_LEFT, Odd.ASTRAL, Odd.CONTROLS)
"""What a client can post. A lone surrogate it cannot: its text is checked where it comes in, with an error."""

_TURN: Final = re.compile(r"turn ([1-9][0-9]{0,5}): ")


def checksum(script: Script, *position: int) -> str:
    """Sixteen hex digits of the script and a position in it."""
    where = "/".join(map(str, position))
    return sha256_text(f"{codec.canonical(script).decode()}\n{where}")[:16]


def stretched(text: str, chars: int) -> str:
    """The text, followed by copies of its own hash until it has ``chars`` characters."""
    missing = chars - len(text)
    if missing <= 0:
        return text
    line = f"\n{sha256_text(codec.escape_text(text))}"
    return text + (line * (missing // len(line) + 1))[:missing]


def with_odd(text: str, odd: Odd | None) -> str:
    """The text, followed by an odd one."""
    return text if odd is None else f"{text} {ODD_TEXTS[odd]}"


def turn_message(number: int, task: str, odd: Odd | None = None) -> str:
    """What a client says to start a turn."""
    return with_odd(f"turn {number}: go on, {task}", odd)


def note_message(number: int, task: str, odd: Odd | None = None) -> str:
    """What a client says beside the course; it changes no reply."""
    return with_odd(f"note {number}: by the way, {task}", odd)


def turn_named(text: str) -> int | None:
    """The turn a client's message starts, from 1; None: it starts none."""
    found = _TURN.match(text)
    return None if found is None else int(found.group(1))
