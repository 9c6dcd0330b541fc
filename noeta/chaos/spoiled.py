"""Store calls that go wrong on the way, in a real worker: refused unsent, lost, landed unheard, late, or slow.

The crash point ``<verb>.before`` decides which call it is (`instrument.py`); this store handle, the nearest one to the
product's, makes it go wrong, so that everything above it, the record included, sees what a broken connection shows.
Of a read no outcome is unknown: a connection that breaks under one is a store that could not be asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from noeta.backends.stores.around import AroundStore, Call
from noeta.chaos.orders import Aimed
from noeta.chaos.schedule import Kind
from noeta.core.errors import CommitUnknown, NoetaError, StoreUnavailable
from noeta.core.store import Store

T = TypeVar("T")


class Spoiler(Protocol):
    """Who knows which call is to go wrong, and hears what became of it."""

    def spoils(self, verb: str) -> Aimed | None:
        """What was decided about the call that this thread makes now; None: nothing."""
        ...

    def spoiled(self, aimed: Aimed, became: str, *, hurt: bool) -> None:
        """The call went wrong, or (``hurt`` False) the store refused it by itself and nothing was spoiled."""
        ...


class SpoiledStore(AroundStore):
    """Implements ``noeta.core.store.Store`` over ``inner``."""

    def __init__(self, inner: Store, spoiler: Spoiler) -> None:
        super().__init__(inner)
        self._spoiler = spoiler

    def around(self, call: Call, do: Callable[[], T]) -> T:
        aimed = self._spoiler.spoils(call.verb)
        if aimed is None:
            return do()
        match aimed.kind:
            case Kind.SLOW:
                time.sleep(aimed.seconds)
                self._spoiler.spoiled(aimed, "sent late", hurt=True)
                return do()
            case Kind.STORE_UNAVAILABLE:
                self._spoiler.spoiled(aimed, "not sent", hurt=True)
                raise StoreUnavailable(f"fault {aimed.id}: {call.verb} was not sent")
            case Kind.UNKNOWN_LOST:
                self._spoiler.spoiled(aimed, "lost", hurt=True)
            case Kind.UNKNOWN_LANDED:
                self._land(aimed, do)
            case Kind.UNKNOWN_LATER:
                late = threading.Thread(target=self._land_late, args=(aimed, do), name=aimed.id, daemon=True)
                late.start()
            case other:
                raise AssertionError(f"{aimed.id}: a {other} spoils no call")
        error = CommitUnknown if call.writes else StoreUnavailable
        raise error(f"fault {aimed.id}: the connection broke under {call.verb}")

    def _land(self, aimed: Aimed, do: Callable[[], object]) -> None:
        try:
            do()
        except NoetaError as refusal:
            # What the store refuses has not landed: its refusal is the answer.
            self._spoiler.spoiled(aimed, f"refused: {refusal.code}", hurt=False)
            raise
        self._spoiler.spoiled(aimed, "landed", hurt=True)

    def _land_late(self, aimed: Aimed, do: Callable[[], object]) -> None:
        time.sleep(aimed.seconds)
        try:
            do()
        except NoetaError as refusal:  # nobody hears of it: whoever sent it has long gone on
            self._spoiler.spoiled(aimed, f"refused when it came: {refusal.code}", hurt=True)
        else:
            self._spoiler.spoiled(aimed, "landed late", hurt=True)
