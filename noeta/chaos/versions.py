"""Which code, on which machine, a run was made with: facts for ``run.json``."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import noeta

PACKAGES: Final = ("noeta", "psycopg", "msgspec", "psutil", "greenlet")
GIT_SECONDS_MAX: Final = 5


def commit() -> str:
    """The checkout's commit, with ``-dirty`` if it was changed; ``unknown`` outside a checkout."""
    here = Path(noeta.__file__).parent
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=here,
            capture_output=True,
            text=True,
            check=False,
            timeout=GIT_SECONDS_MAX,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return asked.stdout.strip() or "unknown"


def versions() -> Mapping[str, str]:
    """Of everything that could matter, but for the store."""
    found = {name: _version(name) for name in PACKAGES}
    return {
        **found,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "cpus": str(os.cpu_count()),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
