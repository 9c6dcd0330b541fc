"""How code is replaced in a process that runs: one attribute, by what a patch makes of it.

The standard library only: a worker's guard process has nothing else, and its bugs are planted here, too (``in_guard``).
"""

from __future__ import annotations
import __future__

import importlib
import inspect
import linecache
import textwrap
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from tests.mutants.mutant import Edit, Lines, Swap

_GUARD_BEGINS: Final = "from noeta.runtime.jobs.guard import main; "


def in_guard(patch: Lines) -> tuple[Lines, Swap]:
    """This patch, for the guard process of a worker and the supervisors that it forks, too: what is replaced in a
    worker does not reach them, because they read the code again."""
    planted = (
        "from tests.mutants.mutant import Lines; from tests.mutants.patching import apply; "
        f"apply('in the guard', {patch!r}); "
    )
    before = planted + _GUARD_BEGINS
    return patch, Swap("noeta.runtime.jobs.link", "_MAIN", lambda main: main.replace(_GUARD_BEGINS, before))


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
