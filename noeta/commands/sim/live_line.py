"""One line on a terminal that says how far it is; nothing where there is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import typer

T = TypeVar("T")
PROGRESS_SECONDS: Final = 0.2


class LiveLine(Generic[T]):
    """``words`` says how far it is."""

    def __init__(self, words: Callable[[T], str]) -> None:
        self._words = words
        self._live = sys.stderr.isatty()
        self._said_at = 0.0

    def show(self, found: T) -> None:
        """Perhaps say it again."""
        now = time.monotonic()
        if self._live and now - self._said_at >= PROGRESS_SECONDS:
            self._said_at = now
            typer.echo(f"\r{self._words(found)}\033[K", nl=False, err=True)

    def clear(self) -> None:
        """Leave the line empty for what follows."""
        if self._live:
            typer.echo("\r\033[K", nl=False, err=True)
