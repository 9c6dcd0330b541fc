"""Histories of cron tables: timers-once, and the laws beside it that a cron table's rest touches.

The table ``*_*_*_*_*`` in UTC is due at 60 s, 120 s and so on.
"""

from __future__ import annotations

from tests.unit.invariants.case import invalid, unknown, valid

_SET = "1/0 created interactive; 2/1 called; 3/1 replied mute; 4/1 started 3-0 at=4; 5/1 finished 3-0; "
_EVERY = _SET + "6/1 cronset *_*_*_*_* 3-0 since=4; 7/1 called; 8/1 replied; "
_REST = _EVERY + "9/1 suspended human@60; "
_WOKEN = _REST + "10/2 woken 1 human@60 at=61; "
_FIRED = _WOKEN + "11/2 cronfired 3-0 60 at=61; "
_TURN = _FIRED + "12/2 called at=61; 13/2 replied at=62; "
_HOURLY = _SET + "6/1 cronset 0_*_*_*_* 3-0.1 since=4; 7/1 cronset *_*_*_*_* 3-0.2 since=4; "
_LEASE = {"lease": 10_000_000}
_LATE_CLAIM = "w2:claim /2 ok lease=250; "
"""At 240 s, if the lease is 10 s long."""

FIRING = (
    valid(
        "timers-once", "a cron table fires, and the next rest is for the next time", _TURN + "14/2 suspended human@120"
    ),
    valid(
        "timers-once",
        "a firing for an outage",
        _REST
        + _LATE_CLAIM
        + "10/2 woken 1 human@60 at=241; 11/2 cronfired 3-0 240 missed=3 at=241; 12/2 called at=242",
        **_LEASE,
    ),
    valid(
        "timers-once",
        "decided right before the next occurrence, and written right after it",
        _REST + "10/2 woken 1 human@60 at=120.1; 11/2 cronfired 3-0 60 at=120.1; 12/2 called at=120.1",
    ),
    valid(
        "timers-once",
        "a claim half a second after the next occurrence, by a clock that its writer knew half a second late",
        _REST
        + "w2:claim /2 ok lease=130.5; 10/2 woken 1 human@60 at=121; 11/2 cronfired 3-0 60 at=121; 12/2 called at=121",
        **_LEASE,
    ),
    valid(
        "timers-once",
        "two tables, and one is due",
        _HOURLY + "8/1 called; 9/1 replied; 10/1 suspended human@60; 11/2 woken 1 human@60 at=60; "
        "12/2 cronfired 3-0.2 60 at=60; 13/2 called at=60",
    ),
    valid(
        "timers-once",
        "the firing that the worker before did not come to",
        _WOKEN + "11/3 cronfired 3-0 60 at=65; 12/3 called at=65",
    ),
    valid(
        "timers-once",
        "a message comes first, and the occurrence is overdue at the next rest",
        _REST + "10/2 woken 1 human at=59; 11/2 called at=59; 12/2 replied at=70; 13/2 suspended human@60 at=70; "
        "14/3 woken 2 human@60 at=71; 15/3 cronfired 3-0 60 at=71; 16/3 called at=71",
    ),
    valid(
        "timers-once",
        "an order to stop goes before what is due",
        _WOKEN + "11/2 taken 2 close at=61; 12/2 suspended human@60 reason=closed at=61",
    ),
    valid(
        "timers-once",
        "a cancel goes before what is due",
        _WOKEN + "11/2 taken 2 cancel at=61; 12/2 cancelled at=61",
    ),
    valid("timers-once", "the table is emptied", _TURN + "14/2 cronremoved 3-0; 15/2 suspended human"),
    valid(
        "timers-once",
        "a call waits beside a cron table",
        _EVERY.replace("8/1 replied", "8/1 replied wait") + "9/1 started 8-0; 10/1 parked 8-0 human:q; "
        "11/1 suspended human:q",
    ),
    valid(
        "timers-once",
        "a person is to say how it goes on, and no time ends that",
        _EVERY + "9/2 sealed 7 attempt_parked; 10/2 noticed; 11/2 suspended human reason=attempt_parked",
    ),
    valid(
        "timers-once",
        "a table that never comes",
        _SET + "6/1 cronset 0_0_29_2_* 3-0 since=4; 7/1 cronset *_*_*_*_* 3-1 since=4; 8/1 suspended human@60",
    ),
    invalid(
        "timers-once",
        "a rest that the table does not end",
        _EVERY + "9/1 suspended human",
        "other-rest",
    ),
    invalid("timers-once", "a rest that skips an occurrence", _EVERY + "9/1 suspended human@120", "other-rest"),
    invalid(
        "timers-once",
        "a rest that forgets what was overdue",
        _REST + "10/2 woken 1 human at=59; 11/2 called at=59; 12/2 replied at=70; 13/2 suspended human@120 at=70",
        "other-rest",
    ),
    invalid(
        "timers-once",
        "a rest that a table ends which is empty by now",
        _TURN + "14/2 cronremoved 3-0; 15/2 suspended human@120",
        "other-rest",
    ),
    invalid(
        "timers-once",
        "a time ends the wait for a person",
        _EVERY + "9/2 sealed 7 attempt_parked; 10/2 noticed; 11/2 suspended human@60 reason=attempt_parked",
        "other-rest",
    ),
    invalid(
        "timers-once",
        "before its time",
        _REST + "10/2 woken 1 human@60 at=61; 11/2 cronfired 3-0 120 missed=1 at=61",
        "cron-early",
    ),
    invalid("timers-once", "twice", _FIRED + "12/2 cronfired 3-0 60 at=61", "cron-twice"),
    invalid(
        "timers-once",
        "again by the next worker, for an older time",
        _REST + "10/2 woken 1 human@60 at=121; 11/2 cronfired 3-0 120 missed=1 at=121; 12/2 called at=122; "
        "13/2 replied at=122; 14/2 suspended human@180 at=122; 15/3 woken 2 human@180 at=181; 16/3 cronfired 3-0 60 "
        "at=181; 17/3 cronfired 3-0 180 at=181",
        "cron-twice",
    ),
    invalid("timers-once", "before it was set", _WOKEN + "11/2 cronfired 3-0 0 at=61", "cron-twice"),
    invalid(
        "timers-once",
        "a time that the table does not name",
        _WOKEN + "11/2 cronfired 3-0 60.5 at=61",
        "no-occurrence",
    ),
    invalid(
        "timers-once",
        "an entry that the table does not have",
        _WOKEN + "11/2 cronfired 3-0 60 at=61; 12/2 cronfired 9-9 60 at=61",
        "no-occurrence",
    ),
    invalid(
        "timers-once",
        "woken, and the turn begins without it",
        _WOKEN + "11/2 called at=61",
        "cron-lost",
    ),
    invalid(
        "timers-once",
        "woken, and it rests again",
        _WOKEN + "11/2 suspended human@60 at=61",
        "cron-lost",
    ),
    invalid(
        "timers-once",
        "two tables are due, and one fires",
        _SET + "6/1 cronset *_*_*_*_* 3-0.1 since=4; 7/1 cronset *_*_*_*_* 3-0.2 since=4; 8/1 suspended human@60; "
        "9/2 woken 1 human@60 at=61; 10/2 cronfired 3-0.2 60 at=61; 11/2 called at=61",
        "cron-lost",
    ),
    invalid(
        "timers-once",
        "after an outage, one firing for each that was missed",
        _REST + _LATE_CLAIM + "10/2 woken 1 human@60 at=241; 11/2 cronfired 3-0 60 at=241; 12/2 called at=242",
        "cron-behind",
        **_LEASE,
    ),
    invalid(
        "timers-once",
        "an owner that fires what it knew to be old",
        _REST + "10/2 woken 1 human at=59; 11/2 called at=59; 12/2 replied at=130; 13/2 suspended human@60 at=130; "
        "14/2 woken 2 human@60 at=130; 15/2 cronfired 3-0 60 at=130; 16/2 called at=130",
        "cron-behind",
    ),
    invalid(
        "timers-once",
        "skipped occurrences are not counted",
        _REST + "10/2 woken 1 human@60 at=241; 11/2 cronfired 3-0 240 at=241; 12/2 called at=242",
        "miscounted",
    ),
    invalid(
        "timers-once",
        "a table that counts from another instant than its call",
        _SET + "6/1 cronset *_*_*_*_* 3-0 since=3",
        "other-instant",
    ),
    unknown(
        "timers-once",
        "a zone that nobody here knows",
        _SET + "6/1 cronset *_*_*_*_* 3-0 Mars/Olympus since=4; 7/1 suspended human",
    ),
)

BESIDE = (
    valid("wake-once", "a cron table's time ends the rest", _FIRED),
    invalid(
        "wake-once",
        "a firing that no wake goes before",
        _REST + "10/2 cronfired 3-0 60 at=61; 11/2 suspended human; 12/2 woken 1 human",
        "went-on-unwoken",
    ),
    invalid("wake-once", "another time than the rest's", _REST + "10/2 woken 1 human@120 at=121", "other-wake"),
    valid(
        "taken-once",
        "the end of a rest comes after a message, and is taken",
        _REST + "10/2 woken 1 human; 11/2 taken 2 human@60 at=61; end running/2 w2 last=11 inbox=2",
    ),
    valid(
        "same-request",
        "fired between two calls",
        _TURN.replace("12/2 called", "12/2 called s") + "14/2 called s2; 15/3 sealed 14; 16/3 called s2",
    ),
    invalid(
        "same-request",
        "fired in an open call",
        _EVERY + "9/1 called s; 10/2 sealed 9; 11/2 cronfired 3-0 60; 12/2 called s2",
        "other-request",
    ),
    valid(
        "never-stuck",
        "a rest that the cron table ends",
        _REST + "end suspended/1 last=9 on=human@600 ready=600 at=90",
        idle_since={"default": 0},
    ),
)

CASES = (*FIRING, *BESIDE)
