"""Named SQL statements and migrations, read from the ``.sql`` files beside the stores.

A statement starts with a line ``-- name: <name>`` and ends with its semicolon. ``{schema}`` stands for the
quoted schema name wherever a table, type or function is named, so that nothing is resolved by search_path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final

from noeta.core.errors import BadInput

SCHEMA_PLACEHOLDER: Final = "{schema}"
BODY_QUOTE: Final = "$noeta$"
"""What quotes function bodies in the migrations; a schema name that holds it could not be placed in them."""

SCHEMA_BYTES_MAX: Final = 63
"""Postgres cuts longer names without an error."""

_NAME_LINE: Final = re.compile(r"^-- name: (?P<name>[a-z_]+)$", re.MULTILINE)
_MIGRATION_FILE: Final = re.compile(r"^(?P<version>\d{4})_(?P<name>[a-z_]+)\.sql$")


@dataclass(frozen=True, slots=True)
class Migration:
    """One forward step of the schema, applied in one transaction."""

    version: int
    name: str
    text: str


def load_statements(store: str, schema: str, file: str = "statements.sql") -> dict[str, str]:
    """The statements of a file by name, for this schema."""
    text = resources.files(__package__).joinpath("sql", store, file).read_text("utf-8")
    parts = _NAME_LINE.split(text)
    names, bodies = parts[1::2], parts[2::2]
    assert len(set(names)) == len(names), f"a statement is named twice in {store}/{file}"
    quoted = quote_name(schema)
    return {
        name: _without_comments(body).strip().removesuffix(";").replace(SCHEMA_PLACEHOLDER, quoted)
        for name, body in zip(names, bodies, strict=True)
    }


def load_migrations(store: str, schema: str, patches: Sequence[tuple[str, str]] = ()) -> tuple[Migration, ...]:
    """Every migration in order, for this schema.

    ``patches`` are (old, new) replacements with which tests plant bugs; each old text must be there.
    """
    folder = resources.files(__package__).joinpath("sql", store)
    found = {file.name: file.read_text("utf-8") for file in folder.iterdir() if _MIGRATION_FILE.match(file.name)}
    for old, new in patches:
        holders = [name for name, text in found.items() if old in text]
        assert holders, f"no migration holds the text to replace: {old!r}"
        for name in holders:
            found[name] = found[name].replace(old, new)
    quoted = quote_name(schema)
    migrations = []
    for name in sorted(found):
        match = _MIGRATION_FILE.match(name)
        assert match is not None
        text = found[name].replace(SCHEMA_PLACEHOLDER, quoted)
        migrations.append(Migration(int(match["version"]), match["name"], text))
    assert [m.version for m in migrations] == list(range(1, len(migrations) + 1)), "versions have a gap"
    return tuple(migrations)


def quote_name(name: str) -> str:
    """A name as a quoted SQL identifier; any characters but NUL, up to Postgres' own length.

    Raises:
        BadInput: the name cannot be a schema name.
    """
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise BadInput("schema", f"must not hold a lone surrogate, found one at character {error.start}") from error
    if not 1 <= size <= SCHEMA_BYTES_MAX:
        raise BadInput("schema", f"has from 1 to {SCHEMA_BYTES_MAX} bytes, found {size} in {name[:100]!r}")
    if "\x00" in name or BODY_QUOTE in name:
        raise BadInput("schema", f"must not hold NUL or {BODY_QUOTE}, found {name!r}")
    return '"' + name.replace('"', '""') + '"'


def _without_comments(body: str) -> str:
    return "\n".join(line for line in body.splitlines() if not line.startswith("--"))
