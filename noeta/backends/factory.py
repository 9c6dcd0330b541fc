"""A user's own store by name: ``MODULE:FUNCTION``, called with the place where it keeps its tasks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

from noeta.core.errors import BadInput
from noeta.core.store import Store


def check_factory(module: str, function: str) -> Callable[[str], Store]:
    """The function of that name, not called. The current directory can be imported from, as with ``python -m``.

    Raises:
        BadInput: there is none, or its module cannot be imported.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        loaded = importlib.import_module(module)
    except Exception as error:  # a module that is not there, or one that fails: the user's code either way
        raise BadInput("store", f"cannot import {module!r}: {type(error).__name__}: {error}") from error
    found = getattr(loaded, function, None)
    if not callable(found):
        raise BadInput("store", f"module {module!r} has no function {function!r}")
    return found  # type: ignore[no-any-return]


def open_factory(rest: str) -> Store:
    """The store behind ``MODULE:FUNCTION:PLACE``. What the function raises comes through as it is.

    Raises:
        BadInput: it names no place, or no function.
    """
    module, _, after = rest.partition(":")
    function, _, place = after.partition(":")
    if not module or not function or not place:
        raise BadInput("store", "expected factory:MODULE:FUNCTION:PLACE, found less")
    return check_factory(module, function)(place)
