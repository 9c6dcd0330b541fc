"""Certifying a store that somebody else wrote: one command, one score card, one verdict.

All that is asked of its author is a function of this form (`factory.py`; docs/guide/certify-a-store.md)::

    def make_store(place: str, clock: Callable[[], float] | None = None) -> Store:
        return MyStore(f"{place}/tasks.db", clock=clock)

Each part (`parts.py`) runs in a process of its own (`child.py`), so that a store that hangs, or takes its process
along, is a line of the card and not the end of it.
"""

from noeta.chaos.certify.asked import Asked
from noeta.chaos.certify.run import certify

__all__ = ["Asked", "certify"]
