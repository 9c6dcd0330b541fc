"""What a person may run next, to be pasted into a shell as it is printed."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from typing import Final

STORE_VARIABLE: Final = "NOETA_STORE"
DEFAULT_SCHEMA: Final = "noeta"

_SECRET: Final = re.compile(r"://.*:.*@|password", re.IGNORECASE | re.DOTALL)
"""An address that may hold a password. A word too many costs a person one option to type; one too few is in a log."""


@dataclass(frozen=True, slots=True)
class At:
    """Where the tasks are, as the command was told."""

    address: str
    schema: str = DEFAULT_SCHEMA

    def hint(self, what: str, command: str, *words: str, **options: str | None) -> str:
        """``what: noeta tasks command …``. ``words`` in capitals are left to the reader.

        Names the store unless it is the environment's; an address with a password is left to the reader, too.
        """
        given = {"store": self.address, "schema": self.schema, **options}
        if self.address == os.environ.get(STORE_VARIABLE):
            del given["store"]
        elif not self.address.lower().startswith("sqlite:") and _SECRET.search(self.address):
            del given["store"]
            what += ", with the same --store"
        if self.schema == DEFAULT_SCHEMA:
            del given["schema"]
        parts = ["noeta", "tasks", command]
        parts += [f"--{option} {word(value)}" for option, value in given.items() if value is not None]
        parts += ["--"] if any(one.startswith("-") for one in words) else []
        return f"{what}: {' '.join([*parts, *map(word, words)])}"


def word(value: str) -> str:
    """One word of a shell on one line; what a terminal would obey is escaped as bash, zsh and ksh read it."""
    if value.isprintable():
        return shlex.quote(value)
    return "$'" + "".join(_escaped(one) for one in value) + "'"


def _escaped(one: str) -> str:
    if one.isprintable() and one not in "\\'":
        return one
    return "".join(f"\\{byte:03o}" for byte in one.encode())
