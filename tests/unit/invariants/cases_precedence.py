"""Histories of what was there and was not taken, or would never come: wake-once, taken-once, never-stuck."""

from __future__ import annotations

from tests.unit.invariants.case import invalid, valid

_LIMITED = "1/0 created; 2/1 suspended human:q@3; "
_LATE_ROW = "row pending/1 last=2 inbox=2 unread=2; "
"""Before the claim of epoch 2 there were two items."""
_OWN_ROW = "row running/2 w2 last=2 inbox=2 unread=2; "
"""Under that claim there were: its worker may have read the inbox before."""
_TIMED_OUT = "3/2 woken 1 human:q@3; "
_ANSWER_LEFT = "end running/2 w2 last=3 inbox=2 unread=2:human:q at=90"
_CLAIMED = "w2:claim /2 ok lease=20; "
"""At 10 s, if the lease is 10 s long."""
_LEASE = {"lease": 10_000_000}

WAKE_ONCE = (
    valid("wake-once", "a wait timed out, and then came its answer", _LIMITED + _TIMED_OUT + _ANSWER_LEFT),
    valid("wake-once", "the answer came under the claim", _LIMITED + _OWN_ROW + _TIMED_OUT + _ANSWER_LEFT),
    valid(
        "wake-once",
        "an answer goes before the end of the time for it",
        _LIMITED + _LATE_ROW + "3/2 woken 2 human:q; end running/2 w2 last=3 inbox=2 unread=1:human:q@3",
    ),
    valid(
        "wake-once",
        "a wait timed out beside the answer to another question",
        _LIMITED + _LATE_ROW + _TIMED_OUT + "end running/2 w2 last=3 inbox=2 unread=2:human:p",
    ),
    valid(
        "wake-once",
        "the answer came a second after the claim",
        _LIMITED + _CLAIMED + _TIMED_OUT + _ANSWER_LEFT.replace("human:q", "human:q~79"),
        **_LEASE,
    ),
    valid(
        "wake-once",
        "the answer was taken by a later wait, and nobody knows when it came",
        _LIMITED + _OWN_ROW + _TIMED_OUT + "4/2 suspended human:q; 5/3 woken 2 human:q",
    ),
    invalid(
        "wake-once",
        "a wait timed out, and its answer was there before the claim",
        _LIMITED + _LATE_ROW + _TIMED_OUT + _ANSWER_LEFT,
        "passed-over",
    ),
    invalid(
        "wake-once",
        "the same, and a later wait takes the answer",
        _LIMITED + _LATE_ROW + _TIMED_OUT + "4/2 suspended human:q; 5/3 woken 2 human:q",
        "passed-over",
    ),
    invalid(
        "wake-once",
        "a wait for an event timed out beside the event",
        "1/0 created; 2/1 suspended event:rain@3; "
        + _LATE_ROW
        + "3/2 woken 1 event:rain@3; end running/2 w2 last=3 inbox=2 unread=2:event:rain",
        "passed-over",
    ),
    invalid(
        "wake-once",
        "an unread answer is older than the claim",
        _LIMITED + _CLAIMED + _TIMED_OUT + _ANSWER_LEFT.replace("human:q", "human:q~85"),
        "passed-over",
        **_LEASE,
    ),
    valid(
        "wake-once",
        "an order that came under the claim",
        "1/0 created; 2/1 suspended human:q; " + _OWN_ROW + "3/2 woken 1 human:q; 4/2 taken 2 close",
    ),
    valid(
        "wake-once",
        "two orders, and the first was taken",
        "1/0 created; 2/1 suspended human:q; " + _LATE_ROW + "3/2 woken 1 close; 4/2 taken 2 cancel",
    ),
    invalid(
        "wake-once",
        "a later order was there, and goes before all else",
        "1/0 created; 2/1 suspended human:q; " + _LATE_ROW + "3/2 woken 1 human:q; 4/2 taken 2 close",
        "passed-over",
    ),
)

TAKEN_ONCE = (
    valid(
        "taken-once",
        "one taken, one stamped",
        "1/0 created; 2/1 taken 1; 3/1 failed x; end terminal/1 last=3 inbox=2 stamped=2",
    ),
    invalid(
        "taken-once",
        "taken and stamped",
        "1/0 created; 2/1 taken 1; 3/1 failed x; end terminal/1 last=3 inbox=2 stamped=1,2",
        "taken-yet-stamped",
    ),
    invalid(
        "taken-once",
        "ended a wait, and stamped",
        "1/0 created; 2/1 suspended human; 3/2 woken 1 human; 4/2 failed x; end terminal/2 last=4 inbox=1 stamped=1",
        "taken-yet-stamped",
    ),
)

_DELEGATED = "1/0 created parent=p root=p depth=1; 2/1 called; 3/1 replied wait; 4/1 started 3-0; "
_RESTS = "end suspended/1 parent=p at=90 "

NEVER_STUCK = (
    valid(
        "never-stuck",
        "a delegated task asks a person",
        _DELEGATED + "5/1 parked 3-0 human:q; 6/1 suspended human:q; " + _RESTS + "last=6 on=human:q",
    ),
    valid(
        "never-stuck",
        "a delegated task that can be spoken to",
        "1/0 created interactive parent=p root=p depth=1; 2/1 suspended human; " + _RESTS + "last=2 on=human",
    ),
    valid(
        "never-stuck",
        "a delegated task waits for an event",
        _DELEGATED + "5/1 parked 3-0 event:rain; 6/1 suspended event:rain; " + _RESTS + "last=6 on=event:rain",
    ),
    valid(
        "never-stuck",
        "words that a delegated task waits for until a time",
        "1/0 created parent=p root=p depth=1; 2/1 suspended human:r@99; " + _RESTS + "last=2 on=human:r@99 ready=99",
    ),
    valid("never-stuck", "a root at rest", "1/0 created; 2/1 suspended human; end suspended/1 last=2 on=human at=90"),
    invalid(
        "never-stuck",
        "a delegated task rests for a message",
        "1/0 created parent=p root=p depth=1; 2/1 called; 3/1 replied; 4/1 suspended human; "
        + _RESTS
        + "last=4 on=human",
        "nobody-speaks",
    ),
    invalid(
        "never-stuck",
        "a delegated task waits for the answer to a question that it did not ask",
        _DELEGATED + "5/1 parked 3-0 human:q; 6/1 suspended human:r; " + _RESTS + "last=6 on=human:r",
        "nobody-speaks",
    ),
)

CASES = (*WAKE_ONCE, *TAKEN_ONCE, *NEVER_STUCK)
