"""Histories for the laws about items and waits: taken-once, wake-once, never-stuck."""

from __future__ import annotations

from tests.unit.invariants.case import invalid, unknown, valid

TAKEN_ONCE = (
    valid(
        "taken-once",
        "one taken, one unread",
        "1/0 created; sent a 1; sent b 2; 2/1 taken 1; end running/1 w1 inbox=2 unread=2:human",
    ),
    valid("taken-once", "a repeat is dropped", "1/0 created; sent a 1; 2/1 taken 1; sent a 1 repeat; sent a - repeat"),
    valid(
        "taken-once",
        "stamped by the end",
        "1/0 created; 2/1 taken 1; 3/1 completed; end terminal/1 last=3 inbox=2 stamped=2",
    ),
    valid(
        "taken-once",
        "an ended task whose stamps nobody can read",
        "1/0 created; 2/1 taken 1; 3/1 completed; end terminal/1 last=3 inbox=2",
    ),
    valid(
        "taken-once",
        "an inbox too long to read to its end",
        "1/0 created; 2/1 taken 1; end running/1 w1 inbox=9 seen=1",
    ),
    invalid("taken-once", "taken twice", "1/0 created; 2/1 taken 1; 3/2 taken 1", "taken-twice"),
    invalid(
        "taken-once",
        "taken by a message and by a wake",
        "1/0 created; 2/1 taken 1; 3/1 suspended human; 4/2 woken 1 human",
        "taken-twice",
    ),
    invalid(
        "taken-once",
        "stored after the end",
        "1/0 created; 2/1 completed; sent a 1; end terminal/1 last=2 inbox=1 unread=1:human stamped=",
        "left-unread",
    ),
    invalid(
        "taken-once",
        "taken and still there",
        "1/0 created; 2/1 taken 1; end running/1 w1 inbox=1 unread=1:human",
        "taken-yet-unread",
    ),
    invalid(
        "taken-once", "an item that never was", "1/0 created; 2/1 taken 3; end running/1 w1 inbox=0", "never-posted"
    ),
    invalid("taken-once", "gone", "1/0 created; 2/1 taken 1; end running/1 w1 inbox=2", "vanished"),
    invalid(
        "taken-once",
        "gone at the end",
        "1/0 created; 2/1 taken 1; 3/1 completed; end terminal/1 last=3 inbox=2 stamped=",
        "vanished",
    ),
    invalid(
        "taken-once",
        "acknowledged and never numbered",
        "1/0 created; sent a 1; end pending/0 last=1 inbox=0",
        "vanished",
    ),
    invalid(
        "taken-once",
        "the key was forgotten after the take",
        "1/0 created; sent a 1; 2/1 taken 1; sent a 2",
        "key-forgotten",
    ),
    invalid("taken-once", "two keys, one number", "1/0 created; sent a 1; sent b 1", "number-reused"),
    valid(
        "taken-once",
        "every sender's items, each in its place",
        "1/0 created; 2/1 taken 1 cancel; 3/1 taken 2 child:t.9-0.1; 4/1 suspended timer:2; 5/2 woken 3 timer:2; "
        "6/2 taken 4 told:t.9-0.2; end running/2 w2 last=6 inbox=6 unread=5:event:rain,6:human",
    ),
    valid(
        "taken-once",
        "the order that cancelled the task is stamped",
        "1/0 created; sent c 1 cancelled item=cancel; 2/1 cancelled; end terminal/1 last=2 inbox=1 stamped=1",
    ),
    valid(
        "taken-once",
        "taken as it was posted",
        "1/0 created; sent a 1 item=human:next-goal!hi; 2/1 taken 1 human:next-goal!hi",
    ),
    invalid(
        "taken-once",
        "taken with other words than were posted",
        "1/0 created; sent a 1 item=human:next-goal!hi; 2/1 taken 1 human:next-goal!ho",
        "other-bytes",
    ),
    invalid(
        "taken-once",
        "unread with other words than were posted",
        "1/0 created; sent a 1 item=human:next-goal!hi; end pending/0 last=1 inbox=1 unread=1:human:next-goal!ho",
        "other-bytes",
    ),
    invalid(
        "taken-once",
        "a timer's item that is nowhere",
        "1/0 created; 2/1 suspended timer:2; end pending/1 last=2 inbox=1",
        "vanished",
    ),
    unknown("taken-once", "nobody sent anything", "1/0 created; end pending/0 last=1"),
    unknown("taken-once", "nothing", ""),
)

_WAITS = "1/0 created; 2/1 suspended human; "

WAKE_ONCE = (
    valid("wake-once", "a message", _WAITS + "3/2 woken 1 human; 4/2 called"),
    valid("wake-once", "a timer", "1/0 created; 2/1 suspended timer:3; 3/2 woken 1 timer:3"),
    valid(
        "wake-once",
        "an event that came before the wait ends it",
        "1/0 created; sent e 1 item=event:rain; 2/1 taken 2 human; 3/1 suspended event:rain; 4/2 woken 1 event:rain",
    ),
    valid(
        "wake-once",
        "a message that came first is not what the wait is for",
        "1/0 created; 2/1 suspended event:rain; 3/2 woken 2 event:rain; 4/2 taken 1 human",
    ),
    valid(
        "wake-once",
        "an order goes before an answer that was there first",
        "1/0 created; 2/1 suspended human:q; 3/2 woken 2 cancel; 4/2 cancelled; end terminal/2 inbox=2 stamped=1",
    ),
    valid(
        "wake-once",
        "a result that no call waits for any more",
        "1/0 created; 2/1 called; 3/1 replied wait; 4/1 started 3-0; 5/1 parked 3-0 child:t.3-0.1 children=t.3-0.1; "
        "6/1 suspended child:t.3-0.1; 7/2 woken 1 close; 8/2 suspended human reason=closed; 9/3 woken 3 human; "
        "10/3 taken 2 child:t.3-0.1",
    ),
    valid(
        "wake-once",
        "an answer that came too late lies unread",
        "1/0 created; 2/1 suspended human:q@3; 3/2 woken 1 human:q@3; end running/2 w2 last=3 inbox=2 unread=2:human:q",
    ),
    valid("wake-once", "a cancel ends every wait", _WAITS + "3/2 woken 1 cancel; 4/2 cancelled"),
    valid("wake-once", "a group", "1/0 created; 2/1 suspended group:g/2; 3/2 woken 1,2 group:g/2"),
    valid(
        "wake-once",
        "a waiting task is cancelled from outside",
        _WAITS + "3/2 woken 1 human; 4/2 suspended human; 5/3 cancelled",
    ),
    invalid("wake-once", "woken again", _WAITS + "3/2 woken 1 human; 4/3 woken 2 human", "woken-twice"),
    invalid(
        "wake-once",
        "goes on with no wake",
        _WAITS + "3/2 called; 4/2 replied; 5/2 suspended human; 6/3 woken 1 human",
        "went-on-unwoken",
    ),
    invalid("wake-once", "a wake that takes nothing", _WAITS + "3/2 woken - human", "took-nothing"),
    invalid("wake-once", "somebody else's wake", _WAITS + "3/2 woken 1 event:rain", "other-wake"),
    invalid(
        "wake-once",
        "an answer to another question",
        "1/0 created; 2/1 suspended human:q1; 3/2 woken 1 human:q2",
        "other-wake",
    ),
    invalid(
        "wake-once",
        "a wake that is not what was posted",
        "1/0 created; sent e 1 item=human:q!yes; 2/1 suspended human:q; 3/2 woken 1 human:q!no",
        "other-bytes",
    ),
    invalid(
        "wake-once",
        "one item ends two waits",
        _WAITS + "3/2 woken 1 human; 4/2 suspended human; 5/3 woken 1 human",
        "ended-two-waits",
    ),
    invalid(
        "wake-once",
        "an early event is passed over for a later one",
        "1/0 created; 2/1 suspended event:rain; 3/2 woken 2 event:rain; 4/2 suspended event:rain; "
        "5/3 woken 1 event:rain",
        "passed-over",
    ),
    invalid(
        "wake-once",
        "an early message lies unread beside the wait that a later one ended",
        _WAITS + "3/2 woken 2 human; end running/2 w2 last=3 inbox=2 unread=1:human",
        "passed-over",
    ),
    invalid(
        "wake-once",
        "an order is passed over for an answer",
        "1/0 created; 2/1 suspended human:q; 3/2 woken 2 human:q; 4/2 taken 1 cancel",
        "passed-over",
    ),
    invalid(
        "wake-once",
        "a wait times out beside its answer",
        "1/0 created; 2/1 suspended human:q@3; 3/2 woken 2 human:q@3; end running/2 w2 last=3 inbox=2 unread=1:human:q",
        "passed-over",
    ),
    invalid("wake-once", "an early event is swallowed", "1/0 created; 2/1 taken 1 event:rain", "swallowed"),
    invalid("wake-once", "an early answer is swallowed", "1/0 created; 2/1 taken 1 human:q", "swallowed"),
    invalid(
        "wake-once",
        "a result is taken past the call that waits for it",
        "1/0 created; 2/1 called; 3/1 replied wait; 4/1 started 3-0; 5/1 parked 3-0 group:t.3-0/2 "
        "children=t.3-0.1,t.3-0.2; 6/1 taken 1 child:t.3-0.1/t.3-0",
        "swallowed",
    ),
    invalid(
        "wake-once",
        "a group with a result missing",
        "1/0 created; 2/1 suspended group:g/2; 3/2 woken 1 group:g/2",
        "group-unfinished",
    ),
    unknown("wake-once", "nobody was woken", _WAITS),
    unknown("wake-once", "nothing", ""),
)

_IDLE = {"idle_since": {"default": 0}}
_CHILD = "1/0 created; 2/1 suspended child:t.2-0.1; end suspended/1 last=2 on=child:t.2-0.1 at=90"
_GROUP = "1/0 created; 2/1 suspended group:g/1; end suspended/1 last=2 on=group:g/1 at=90"
_ENDED = "; on t.2-0.1; 1/0 created at=3; 2/1 completed at=4; end terminal/1 last=2 group=g at=90"

NEVER_STUCK = (
    valid("never-stuck", "ended", "1/0 created; 2/1 completed; end terminal/1 last=2"),
    valid("never-stuck", "waits for a person", _WAITS + "end suspended/1 last=2 on=human at=900", **_IDLE),
    valid(
        "never-stuck",
        "waits for an event",
        "1/0 created; 2/1 suspended event:rain; end suspended/1 last=2 on=event:rain at=900",
        **_IDLE,
    ),
    valid("never-stuck", "due for a moment", "1/0 created; end pending/0 last=1 ready=80 at=85", **_IDLE),
    valid(
        "never-stuck",
        "due for long, the worker was busy until just now",
        "1/0 created; end pending/0 last=1 ready=1 at=85",
        idle_since={"default": 80_000_000},
    ),
    valid(
        "never-stuck",
        "another item",
        _WAITS + "end suspended/1 last=2 on=human unread=1:event:rain inbox=1 at=90",
        **_IDLE,
    ),
    valid(
        "never-stuck",
        "a timer far away",
        "1/0 created; 2/1 suspended timer:900; end suspended/1 last=2 on=timer:900 ready=900 at=90",
        **_IDLE,
    ),
    valid(
        "never-stuck",
        "a kept task whose owner has not heard yet",
        _WAITS + "end suspended/1 w1 kept last=2 on=human unread=1:human~3 inbox=1 at=90 lease=91",
        **_IDLE,
    ),
    valid(
        "never-stuck",
        "a child at work",
        _CHILD + "; on t.2-0.1; 1/0 created; end running/1 w1 last=1 lease=95 at=90",
        **_IDLE,
    ),
    valid(
        "never-stuck",
        "a child that has just ended",
        _CHILD + "; on t.2-0.1; 1/0 created; 2/1 completed at=89; end terminal/1 last=2 at=91",
        **_IDLE,
    ),
    invalid("never-stuck", "nobody claims it", "1/0 created; end pending/0 last=1 ready=1 at=90", "unclaimed", **_IDLE),
    invalid(
        "never-stuck",
        "nobody takes over a lapsed lease",
        "1/0 created; 2/1 called; end running/1 w1 last=2 lease=5 at=90",
        "unclaimed",
        **_IDLE,
    ),
    invalid(
        "never-stuck",
        "a timer that never fires",
        "1/0 created; 2/1 suspended timer:5; end suspended/1 last=2 on=timer:5 ready=5 at=90",
        "unclaimed",
        **_IDLE,
    ),
    invalid(
        "never-stuck",
        "pending and never due",
        "1/0 created; end pending/0 last=1 ready=- at=90",
        "unclaimable",
        **_IDLE,
    ),
    invalid(
        "never-stuck", "a lost wake", _WAITS + "end suspended/1 last=2 on=human unread=1:human inbox=1", "wake-lost"
    ),
    invalid(
        "never-stuck",
        "a cancel that nobody hears",
        _WAITS + "end suspended/1 last=2 on=human unread=1:cancel inbox=1",
        "wake-lost",
    ),
    invalid(
        "never-stuck",
        "a whole group unheard",
        "1/0 created; 2/1 suspended group:g/2; "
        "end suspended/1 last=2 on=group:g/2 unread=1:child:a/g,2:child:b/g inbox=2",
        "wake-lost",
    ),
    invalid(
        "never-stuck",
        "a kept task whose owner never hears",
        _WAITS + "end suspended/1 w1 kept last=2 on=human unread=1:human~60 inbox=1 at=90 lease=91",
        "wake-lost",
        **_IDLE,
    ),
    valid(
        "never-stuck",
        "a child that may have been left out of the evidence",
        _CHILD,
        kin_whole=False,
        **_IDLE,
    ),
    valid(
        "never-stuck",
        "a wait with a limit that its row knows",
        "1/0 created; 2/1 suspended human:q@900; end suspended/1 last=2 on=human:q@900 ready=900 at=90",
        **_IDLE,
    ),
    invalid(
        "never-stuck",
        "a limit that its row does not know",
        "1/0 created; 2/1 suspended human:q@900; end suspended/1 last=2 on=human:q@900 at=90",
        "limit-forgotten",
        **_IDLE,
    ),
    invalid(
        "never-stuck",
        "a limit that is over",
        "1/0 created; 2/1 suspended event:rain@5; end suspended/1 last=2 on=event:rain@5 ready=5 at=90",
        "unclaimed",
        **_IDLE,
    ),
    invalid("never-stuck", "the child has ended", _CHILD + _ENDED, "child-ended", **_IDLE),
    invalid("never-stuck", "there is no child", _CHILD, "child-absent", **_IDLE),
    invalid("never-stuck", "the group has ended", _GROUP + _ENDED, "group-ended", **_IDLE),
    unknown("never-stuck", "due, and no idle worker was seen", "1/0 created; end pending/0 last=1 ready=1 at=90"),
    unknown("never-stuck", "no row was read", "1/0 created"),
    unknown("never-stuck", "nothing", ""),
)

CASES = (*TAKEN_ONCE, *WAKE_ONCE, *NEVER_STUCK)
