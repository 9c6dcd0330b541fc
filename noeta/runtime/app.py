"""What `noeta worker --app MODULE:FACTORY` loads: the user's engine, and nothing else the worker must know."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from noeta.core.errors import BadInput
from noeta.core.fold import TaskState
from noeta.core.runner import Engine
from noeta.core.store import Store
from noeta.core.world import World


@dataclass(frozen=True)
class WorkerApp:
    """One or more engines; a harness may also replace the world and stand around the store."""

    resolve: Callable[[TaskState], Engine]
    world: World | None = None
    around: Callable[[Store], Store] | None = None


def load_app(name: str) -> WorkerApp:
    """Call ``module:factory``, which returns an ``Engine`` (for every task) or a ``WorkerApp``.

    The current directory can be imported from, as with ``python -m``.

    Raises:
        BadInput: there is no such module or factory, it raises, or it returns something else.
    """
    module_name, colon, factory_name = name.partition(":")
    if not colon or not module_name or not factory_name:
        raise BadInput("app", f"expected MODULE:FACTORY, found {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a module that is not there, or one that fails: the user's code either way
        raise BadInput("app", f"cannot import {module_name!r}: {type(error).__name__}: {error}") from error
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        raise BadInput("app", f"module {module_name!r} has no function {factory_name!r}")
    try:
        made = factory()
    except BadInput:
        raise
    except Exception as error:
        raise BadInput("app", f"{name} raised {type(error).__name__}: {error}") from error
    if isinstance(made, Engine):
        return WorkerApp(lambda task: made)
    if isinstance(made, WorkerApp):
        return made
    raise BadInput("app", f"{name} returned {type(made).__name__}, expected Engine or WorkerApp")
