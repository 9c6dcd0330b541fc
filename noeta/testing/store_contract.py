"""The contract of a store as tests: whoever passes them keeps the promises of `noeta.core.store`.

A store author writes a factory and one class::

    from noeta.testing.store_contract import StoreContract

    class TestMyStore(StoreContract):
        factory = MyFactory

``MyFactory()`` is a ``StoreFactory``: it makes an empty store, gives another handle on the same data, and moves
the clock that the store decides by. Where making it is dear, override the fixture ``store_factory`` with one
of a wider scope. A subject alone (``ClaimsContract``, ``TimersContract``, …) can be run while a store is being
written. Needs pytest. Every test of a promise names its key: ``git grep 'Keeps: one-writer'``.

Not covered here: crashes and cut connections (the crash points, `noeta.testing.faults`), races inside one SQL
statement (the race matrix), other processes.

``DIFFERENCES`` lists where the contract decides otherwise than the public runtime of the same name does, and why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from noeta.testing.contract.background import BackgroundContract
from noeta.testing.contract.bad_input import BadInputContract
from noeta.testing.contract.birth import BirthContract
from noeta.testing.contract.cancel import CancelContract
from noeta.testing.contract.claims import ClaimsContract
from noeta.testing.contract.closing import ClosingContract
from noeta.testing.contract.contents import ContentsContract
from noeta.testing.contract.endings import EndingsContract
from noeta.testing.contract.family import FamilyContract
from noeta.testing.contract.fence import FenceContract
from noeta.testing.contract.inbox import InboxContract
from noeta.testing.contract.kept import KeptContract
from noeta.testing.contract.leases import LeasesContract
from noeta.testing.contract.orders import OrdersContract
from noeta.testing.contract.races import RacesContract
from noeta.testing.contract.reads import ReadsContract
from noeta.testing.contract.results import ResultsContract
from noeta.testing.contract.stage import Clock, ContractTests, Stage, StoreFactory
from noeta.testing.contract.sweeps import SweepsContract
from noeta.testing.contract.timeouts import TimeoutsContract
from noeta.testing.contract.timers import TimersContract
from noeta.testing.contract.transitions import TransitionsContract
from noeta.testing.contract.waiting import WaitingContract


class StoreContract(
    BirthContract,
    ClaimsContract,
    LeasesContract,
    KeptContract,
    FenceContract,
    InboxContract,
    WaitingContract,
    TimersContract,
    TimeoutsContract,
    SweepsContract,
    EndingsContract,
    CancelContract,
    FamilyContract,
    ResultsContract,
    BackgroundContract,
    OrdersContract,
    ContentsContract,
    ReadsContract,
    TransitionsContract,
    BadInputContract,
    RacesContract,
    ClosingContract,
):
    """Everything a store must do."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A behaviour of the public runtime, what this contract asks for instead, and why."""

    there: str
    here: str
    why: str


DIFFERENCES: Final = (
    Difference(
        "enqueueing a terminal, leased or suspended task forces it to ready",
        "creating a task again changes nothing, whatever its status",
        "a terminal status is final, and a holder must not lose its task to a client",
    ),
    Difference(
        "a wake to a task that does not exist, or has ended, is kept",
        "it is refused, and says so",
        "a kept one would fire long after its reason, or never",
    ),
    Difference(
        "over the heartbeat cap a task is suspended without a condition",
        "the worker puts it back to pending, with the reason in the log",
        "nothing could ever free a wait for nothing",
    ),
    Difference("the first seq is 0", "the first seq is 1", "0 then means: nothing yet"),
    Difference(
        "events can be written into a task that somebody holds, without a lease",
        "every entry is fenced; what comes from outside is an item in the inbox",
        "one writer",
    ),
    Difference(
        "idempotency keys belong to a lease, and dedupe appends",
        "keys belong to a task, dedupe items, and stay after the item was taken; appends are deduped by their seq",
        "a repeat after a crash comes under another lease",
    ),
    Difference(
        "an expired lease stays good until a sweep takes it",
        "it is refused by every verb from the instant it is over, and a claim may take the task without a sweep",
        "otherwise two owners are possible, and recovery depends on the sweeper",
    ),
    Difference(
        "a lease that lapsed too often ends the task, silently",
        "a claim never ends a task; it answers the count, and the worker writes the terminal entry",
        "row and log must agree, and a parent must hear of it",
    ),
    Difference(
        "failures are retried without a pause and counted over the task's whole life",
        "they back off up to 30 s, and a turn that ends well resets the count",
        "poison must not starve its neighbours; three errors in a year are no poison",
    ),
    Difference(
        "an identical wake while one is unread is buffered, and causes a spare turn later",
        "it is dropped and answered as a repeat",
        "one reply delivered twice is one reply",
    ),
    Difference(
        "tasks can be reserved for a targeted lease",
        "there is no reservation: a task is created with its goal, and a claim takes whatever is due",
        "a reservation whose owner died was never taken by anybody",
    ),
    Difference(
        "a group's barrier is one event, posted by an observer",
        "each member posts its result with its last commit; the store counts those still missing",
        "nothing stands between the child's end and its parent's wake that could die",
    ),
)
"""Deliberate differences, each with its reason."""

__all__ = [
    "DIFFERENCES",
    "BackgroundContract",
    "BadInputContract",
    "BirthContract",
    "CancelContract",
    "ClaimsContract",
    "Clock",
    "ClosingContract",
    "ContentsContract",
    "ContractTests",
    "Difference",
    "EndingsContract",
    "FamilyContract",
    "FenceContract",
    "InboxContract",
    "KeptContract",
    "LeasesContract",
    "OrdersContract",
    "RacesContract",
    "ReadsContract",
    "ResultsContract",
    "Stage",
    "StoreContract",
    "StoreFactory",
    "SweepsContract",
    "TimeoutsContract",
    "TimersContract",
    "TransitionsContract",
    "WaitingContract",
]
