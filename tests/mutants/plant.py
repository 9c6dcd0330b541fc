"""Plants a bug of the catalogue in this process.

``NOETA_MUTANT`` names it. It is honoured here, by the hook in ``tests/conftest.py`` and by the probes beside this
file, and by nothing that is shipped. A storm's workers are told by the harness's own hook
(``--mutant tests.mutants.plant:plant_here``).
"""

from __future__ import annotations
import __future__

import functools
import importlib
import inspect
import linecache
import os
import textwrap
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from noeta.backends.stores import pg_migrate, sql_loader
from tests.mutants.catalogue import BY_NAME, Edit, Lines, Mutant, Swap

VARIABLE: Final = "NOETA_MUTANT"


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


def apply(name: str, patch: Lines | Swap) -> None:
    """Replace one attribute."""
    module = importlib.import_module(patch.module)
    owner, attribute, found = look_up(module, patch.path)
    setattr(owner, attribute, rewritten(name, module, found, patch) if isinstance(patch, Lines) else patch.make(found))


def rewritten(name: str, module: ModuleType, function: Any, patch: Lines) -> Any:
    """The function with its edits, compiled again in its own module.

    Raises:
        LookupError: an old text does not occur exactly once.
    """
    source = edited(inspect.getsource(function), patch.edits, f"{patch.module}.{patch.path}")
    text = textwrap.dedent(source)
    file = f"<{name}: {patch.module}.{patch.path}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    code = compile(text, file, "exec", flags=__future__.annotations.compiler_flag)
    made: dict[str, Any] = {}
    exec(code, vars(module), made)
    (only,) = made.values()
    return only


def edited(text: str, edits: Sequence[Edit], where: str) -> str:
    """The text with every edit applied, each exactly once.

    Raises:
        LookupError: an old text does not occur exactly once.
    """
    for old, new in edits:
        if text.count(old) != 1:
            raise LookupError(f"{where}: expected once, found {text.count(old)} times: {old!r}")
        text = text.replace(old, new)
    return text


def _load_patched(edits: tuple[Edit, ...], store: str, schema: str, patches: Sequence[Edit] = ()) -> Any:
    return sql_loader.load_migrations(store, schema, (*edits, *patches))


def look_up(module: ModuleType, path: str) -> tuple[Any, str, Any]:
    """Who owns the attribute, its name, and what it is now."""
    owner: Any = module
    *outer, attribute = path.split(".")
    for name in outer:
        owner = getattr(owner, name)
    found = inspect.getattr_static(owner, attribute)
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    return owner, attribute, found
