"""One root seed a run; every part draws from a stream of its own, derived by name.

A new kind of fault therefore changes no other draw, and a seed gives the same plan under every Python and
every PYTHONHASHSEED: the streams use ``Random.random()`` only. They are those of the scripted models.
"""

from __future__ import annotations

import secrets
from typing import Final

from scripted_model.seeds import Stream, child_seed

__all__ = ["SEED_MAX", "Stream", "child_seed", "fresh_seed", "stream"]

SEED_MAX: Final = 2**32 - 1
"""Short enough to be typed from a screen."""


def stream(seed: int | str, name: str) -> Stream:
    """The draws of one named part."""
    return Stream(seed, name)


def fresh_seed() -> int:
    """A root seed for a run that was given none."""
    return secrets.randbelow(SEED_MAX + 1)
