"""Memory stores that forget one thing about families and orders: what a comparison must find."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from noeta.backends.stores.memory import MemoryStore
from noeta.core.codec import encode
from noeta.core.lower import LoweredItem
from noeta.core.store import Claim, Posted, Renewal
from noeta.core.wake import CLOSE, ControlReceived, TimerFired


class NoCascade(MemoryStore):
    """Children never hear that their parent has ended."""

    def _order_children(self, parent: str, now: int) -> None:
        pass


class OrphansWork(MemoryStore):
    """A child born for a root that has ended is not told so."""

    def _has_ended(self, task_id: str | None) -> bool:
        return False


class RestsOn(MemoryStore):
    """A child that rests goes on resting when its parent has ended."""

    def _order_to_end(self, child: str, now: int) -> None:
        before = self._tasks[child].row
        super()._order_to_end(child, now)
        task = self._tasks[child]
        if before.status is task.row.status and before.ready_at is not None:
            task.row = replace(task.row, ready_at=before.ready_at)


class SameEpoch(MemoryStore):
    """A cancel ends a task under the epoch of its last owner."""

    def _cancel(self, item: LoweredItem, order: ControlReceived) -> Posted:
        posted = super()._cancel(item, order)
        if posted.outcome != "cancelled":
            return posted
        task = self._tasks[item.task_id]
        epoch = task.row.epoch - 1
        task.row = replace(task.row, epoch=epoch)
        task.entries[-1] = (epoch, *task.entries[-1][1:])
        return replace(posted, epoch=epoch)


class KeepsItem(MemoryStore):
    """A cancel is an item like every other: nobody ends but by its owner."""

    def _cancel(self, item: LoweredItem, order: ControlReceived) -> Posted:
        return self._posted(item, derive=False)


class ClosesToo(MemoryStore):
    """Ends a task that was only to stop."""

    def post(self, task_id: str, item: object, key: str | None = None) -> Posted:
        if isinstance(item, ControlReceived) and item.action == CLOSE:
            item = ControlReceived(reason=item.reason)
        return super().post(task_id, item, key)  # type: ignore[arg-type]


class Deaf(MemoryStore):
    """A renewal never says that an order waits."""

    def _renew(self, claim: Claim, lease_seconds: float, now: int) -> Renewal:
        return replace(super()._renew(claim, lease_seconds, now), ordered=False)


class AlwaysTimers(MemoryStore):
    """The end of a wait's time is put down as a timer's."""

    def _store_timer(self, task: object, now: int) -> None:
        super()._store_timer(task, now)  # type: ignore[arg-type]
        items = task.items  # type: ignore[attr-defined]
        if items[-1].body is not None and "timeout_at" in items[-1].body:
            items[-1].body = encode("wake_on", TimerFired(now / 1_000_000))


FAMILY_BUGS: Final[tuple[type[MemoryStore], ...]] = (
    NoCascade,
    OrphansWork,
    RestsOn,
    SameEpoch,
    KeepsItem,
    ClosesToo,
    Deaf,
    AlwaysTimers,
)
