"""Asking until the outcome is known: a write whose answer was lost is repeated under the key it had.

The key makes the repeat harmless, whether or not the first try landed, or still will.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import typer

from noeta.core.errors import CommitUnknown, StoreUnavailable
from noeta.core.world import World
from noeta.story.text import one_line

T = TypeVar("T")

PATIENCE_SECONDS: Final = 30.0
"""How long an unknown outcome is asked about: several statement timeouts, and less than a person's patience."""

PAUSE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """An answer. ``after_unknown``: an earlier try may have landed, so that "known already" may mean this command."""

    answer: T
    after_unknown: bool


def until_known(world: World, ask: Callable[[], T], again: str, *, seconds: float = PATIENCE_SECONDS) -> Known[T]:
    """What the store answers. ``again``: how a person repeats this command with the same key.

    Raises:
        StoreUnavailable: at the first try: nothing was written.
        CommitUnknown: nobody could tell for so many seconds; says how to repeat it.
    """
    deadline: float | None = None
    while True:
        try:
            return Known(ask(), after_unknown=deadline is not None)
        except (CommitUnknown, StoreUnavailable) as error:
            if deadline is None:
                if isinstance(error, StoreUnavailable):
                    raise
                typer.echo(f"noeta: not known yet whether this was written, asking again: {one_line(error)}", err=True)
                deadline = world.monotonic() + seconds
            elif world.monotonic() >= deadline:
                raise CommitUnknown(
                    f"after {seconds:g} s it is still unknown whether this was written; repeat it {again}, which is "
                    f"harmless: {one_line(error)}"
                ) from error
        world.event().wait(PAUSE_SECONDS)
