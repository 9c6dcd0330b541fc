"""Which code an execution ran: two processes, or two days, can only be compared if it is the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

import invariants
import noeta
import scripted_model

SOURCES: Final = (".py", ".sql")


@cache
def code_fingerprint() -> str:
    """A SHA-256 over every source file of the runtime, the laws and the scripted agents, taken once a process."""
    digest = hashlib.sha256()
    for package in (invariants, noeta, scripted_model):
        root = _root(package)
        for path in sorted(_sources(root)):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{package.__name__}/{path.relative_to(root).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def _root(package: ModuleType) -> Path:
    assert package.__file__ is not None, f"{package.__name__} has no __init__.py"
    return Path(package.__file__).parent


def _sources(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.suffix in SOURCES)
