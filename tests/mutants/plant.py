"""Plants a bug of the catalogue in this process.

``NOETA_MUTANT`` names it. It is honoured here, by the hook in ``tests/conftest.py`` and by the probes beside this
file, and by nothing that is shipped. A storm's workers are told by the harness's own hook
(``--mutant tests.mutants.plant:plant_here``).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any, Final

from noeta.backends.stores import pg_migrate, sql_loader
from tests.mutants.catalogue import BY_NAME, Edit, Mutant
from tests.mutants.patching import apply, look_up, rewritten

VARIABLE: Final = "NOETA_MUTANT"

__all__ = ["VARIABLE", "look_up", "plant", "plant_here", "rewritten"]


def plant_here() -> None:
    """Plant the bug that the environment names, if it names one."""
    name = os.environ.get(VARIABLE, "")
    if name:
        plant(name)


def plant(name: str, *, python: bool = True) -> Mutant:
    """Plant a bug: from now on this process migrates schemas with it, and (``python``) runs it itself.

    Raises:
        KeyError: no such mutant. LookupError: the code has changed, and the bug no longer fits.
    """
    mutant = BY_NAME[name]
    if mutant.sql:
        # Where `apply_migrations` looks it up.
        vars(pg_migrate)["load_migrations"] = functools.partial(_load_patched, mutant.sql)
    if python:
        for patch in mutant.python:
            apply(mutant.name, patch)
    return mutant


def _load_patched(edits: tuple[Edit, ...], store: str, schema: str, patches: Sequence[Edit] = ()) -> Any:
    return sql_loader.load_migrations(store, schema, (*edits, *patches))
