"""What the harness reads of a store past its verbs: all rows at once, the store's clock, what became of items.

`PgView` asks Postgres in SQL; `ContractView` asks any store, with nothing but the verbs of the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from invariants.evidence import FinalRow
from noeta.chaos.board import Seen
from noeta.core.store import LogPage


class ViewUnavailable(Exception):
    """The store cannot be looked at now; ask again later."""


class StoreView(Protocol):
    """Read-only, for one thread; usable with ``with``. Every question may raise ``ViewUnavailable``."""

    def rows(self, leave_out: Sequence[str] = ()) -> tuple[list[Seen], int]:
        """Every row but the ended ones to leave out, page by page, and the store's clock at the last page."""
        ...

    def clock(self) -> int:
        """The store's clock, in microseconds."""
        ...

    def stamped(self, task: str) -> tuple[int, ...]:
        """The items that the terminal entry of a task stamped unread."""
        ...

    def final(self, page: LogPage) -> FinalRow:
        """The row at the end of a log that was read to its end, with what became of its untaken items."""
        ...

    def close(self) -> None:
        """Give back what the view holds open."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
