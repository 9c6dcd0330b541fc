"""Histories for the laws about what a waiting task is: timers-once, waiting-is-free."""

from __future__ import annotations

from tests.unit.invariants.case import invalid, unknown, valid

_ASKED = "1/0 created; 2/1 called; 3/1 replied wait input=seconds:10; 4/1 started 3-0 at=4; "

TIMERS_ONCE = (
    valid("timers-once", "a timer", "1/0 created; 2/1 suspended timer:3; 3/2 woken 1 timer:3"),
    valid(
        "timers-once",
        "a call's timer, from its start",
        _ASKED + "5/1 parked 3-0 timer:14; 6/1 suspended timer:14; 7/2 woken 1 timer:14 at=14",
    ),
    valid(
        "timers-once",
        "a call's timer, from its last start",
        _ASKED + "5/2 sealed 4; 6/2 started 3-0 2 at=20; 7/2 parked 3-0 timer:30; 8/2 suspended timer:30",
    ),
    valid(
        "timers-once",
        "the limit of a question",
        _ASKED + "5/1 parked 3-0 human:q@14; 6/1 suspended human:q@14; 7/2 woken 1 human:q@14 at=15",
    ),
    valid(
        "timers-once",
        "an answer before the limit",
        _ASKED + "5/1 parked 3-0 human:q@14; 6/1 suspended human:q@14; 7/2 woken 1 human:q at=12",
    ),
    valid(
        "timers-once",
        "a timer nobody waits for any more",
        "1/0 created; 2/1 suspended timer:3; 3/2 woken 1 close; 4/2 suspended human reason=closed; 5/3 woken 3 human; "
        "6/3 taken 2 timer:3",
    ),
    valid(
        "timers-once",
        "two waits until the same instant",
        "1/0 created; 2/1 suspended timer:3; 3/2 woken 1 timer:3; 4/2 suspended timer:3; 5/3 woken 2 timer:3",
    ),
    valid(
        "timers-once",
        "a timer that has come and is unread",
        "1/0 created; 2/1 suspended timer:3; end pending/1 last=2 inbox=1 unread=1:timer:3 at=5",
    ),
    valid(
        "timers-once",
        "a tool of which nobody says where its delay stands",
        "1/0 created; 2/1 called; 3/1 replied mute input=seconds:10; 4/1 started 3-0 at=4; 5/1 parked 3-0 timer:9; "
        "6/1 suspended timer:9",
    ),
    invalid("timers-once", "before its time", "1/0 created; 2/1 suspended timer:90; 3/2 woken 1 timer:90", "too-early"),
    invalid(
        "timers-once",
        "in the inbox before its time",
        "1/0 created; 2/1 suspended timer:90; end pending/1 last=2 inbox=1 unread=1:timer:90 at=5",
        "too-early",
    ),
    invalid(
        "timers-once",
        "a limit before it is over",
        "1/0 created; 2/1 suspended human:q@90; 3/2 woken 1 human:q@90",
        "too-early",
    ),
    invalid(
        "timers-once",
        "another timer than the stored one",
        "1/0 created; 2/1 suspended timer:3; 3/2 woken 1 close; 4/2 suspended timer:2; 5/3 woken 2 timer:3",
        "other-bytes",
    ),
    invalid(
        "timers-once",
        "twice",
        "1/0 created; 2/1 suspended timer:3; 3/2 woken 1 timer:3; 4/2 taken 2 timer:3",
        "fired-twice",
    ),
    invalid(
        "timers-once",
        "taken, and in the inbox again",
        "1/0 created; 2/1 suspended timer:3; 3/2 woken 1 timer:3; end running/2 w2 last=3 inbox=2 unread=2:timer:3",
        "fired-twice",
    ),
    invalid(
        "timers-once",
        "a timer that nobody asked for",
        "1/0 created; 2/1 suspended timer:900; 3/2 woken 1 close; 4/2 taken 2 timer:3",
        "never-asked",
    ),
    invalid(
        "timers-once",
        "sooner than its call asked",
        _ASKED + "5/1 parked 3-0 timer:13; 6/1 suspended timer:13; 7/2 woken 1 timer:13 at=13",
        "other-instant",
    ),
    invalid(
        "timers-once",
        "counted from the run after a crash",
        _ASKED + "5/2 sealed 4; 6/2 parked 3-0 timer:24; 7/2 suspended timer:24",
        "other-instant",
    ),
    invalid(
        "timers-once",
        "the limit of a question is forgotten",
        _ASKED + "5/1 parked 3-0 human:q; 6/1 suspended timer:99",
        "other-instant",
    ),
    unknown("timers-once", "nobody waits for a time", "1/0 created; 2/1 suspended human; 3/2 woken 1 human"),
    unknown("timers-once", "nothing", ""),
)

_WAITS = "1/0 created; 2/1 called; 3/1 replied; 4/1 suspended human; "
_LEASES = {"renewals_recorded": True, "lease": 10_000_000}

WAITING_IS_FREE = (
    valid(
        "waiting-is-free",
        "a wait, a message, a turn",
        _WAITS + "row suspended/1 last=4 on=human; row pending/1 last=4 inbox=1 unread=1; row running/2 w2 last=4 "
        "inbox=1; 5/2 woken 1 human",
    ),
    valid(
        "waiting-is-free",
        "claimed for an item that does not end the wait, and put back",
        _WAITS + "row suspended/1 last=4 on=human; row suspended/2 last=4 on=human inbox=1 unread=1; row suspended/2 "
        "last=4 on=human inbox=1 unread=1",
    ),
    valid(
        "waiting-is-free",
        "cancelled by a post",
        _WAITS + "row suspended/1 last=4 on=human; 5/2 cancelled; end terminal/2 last=5 inbox=1 stamped=1",
    ),
    valid(
        "waiting-is-free",
        "a kept claim is no such wait",
        _WAITS + "row suspended/1 w1 kept last=4 on=human lease=9; 5/1 woken 1 human; w1:renew /1 ok lease=60",
        keeps_claims=True,
        lease=10_000_000,
    ),
    valid(
        "waiting-is-free",
        "a renewal right before the suspension",
        "w1:claim /1 ok lease=11; 1/0 created; w1:renew /1 ok lease=13.5; 2/1 suspended human at=4",
        **_LEASES,
    ),
    invalid(
        "waiting-is-free",
        "a waiting row has a worker",
        _WAITS + "row suspended/1 w1 last=4 on=human",
        "held-while-waiting",
    ),
    invalid(
        "waiting-is-free",
        "a waiting row has a lease",
        _WAITS + "row suspended/1 last=4 on=human lease=20",
        "held-while-waiting",
    ),
    invalid(
        "waiting-is-free",
        "the worker that suspended it goes on",
        _WAITS + "5/1 woken 1 human",
        "wrote-while-waiting",
    ),
    invalid(
        "waiting-is-free",
        "the worker goes on, although its row was free",
        _WAITS + "row suspended/1 last=4 on=human; 5/1 woken 1 human",
        "wrote-while-waiting",
        keeps_claims=True,
    ),
    invalid(
        "waiting-is-free",
        "a renewal of the claim that suspended it",
        "w1:claim /1 ok lease=11; 1/0 created; 2/1 suspended human at=4; w1:renew /1 ok lease=15",
        "renewed-while-waiting",
        **_LEASES,
    ),
    invalid(
        "waiting-is-free",
        "somebody claims it for nothing",
        _WAITS + "row suspended/1 last=4 on=human; row running/2 w2 last=4",
        "claimed-while-waiting",
    ),
    invalid(
        "waiting-is-free",
        "somebody looks again and again",
        _WAITS + "row suspended/1 last=4 on=human; row suspended/2 last=4 on=human",
        "claimed-while-waiting",
    ),
    unknown("waiting-is-free", "nobody waits", "1/0 created; 2/1 called; row running/1 w1 last=2"),
    unknown("waiting-is-free", "nothing", ""),
)

CASES = (*TIMERS_ONCE, *WAITING_IS_FREE)
