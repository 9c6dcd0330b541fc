"""How far the store's clock may be from this machine's: for evidence that was dated outside the store."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from noeta.chaos.store_view import StoreView
from noeta.core.ids import MICROS_PER_SECOND, micros

TRIES: Final = 5
"""The quickest answer of these says most."""


def clock_error(view: StoreView, wall: Callable[[], float] = time.time) -> float:
    """At most so many seconds, either way; an answer's time is part of it, because nobody knows when in that time the
    clock was read.

    Raises:
        ViewUnavailable: the store cannot be asked.
    """
    found = []
    for _ in range(TRIES):
        before = micros(wall())
        told = view.clock()
        found.append(max(abs(told - before), abs(told - micros(wall()))))
    return min(found) / MICROS_PER_SECOND
