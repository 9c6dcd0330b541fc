"""Histories of cancels and parked calls, for laws that have other cases elsewhere."""

from __future__ import annotations

from tests.unit.invariants.case import invalid, valid

_RECORDED = {"renewals_recorded": True}
_LEFT = "1/0 created; w1:claim /1 ok lease=20 last=1; 2/1 called; "
_POST = "c:post 3-3/2 ok last=3 outcome=cancelled"

ONE_WRITER = (
    valid("one-writer", "a cancel that its poster was told of", _LEFT + "3/2 cancelled; " + _POST, **_RECORDED),
    valid(
        "one-writer",
        "a cancel whose poster was told nothing",
        _LEFT + "3/2 cancelled; c:post / unknown hash=h3 expects=-",
        **_RECORDED,
    ),
    valid(
        "one-writer",
        "an order that the owner carried out",
        _LEFT + "3/2 cancelled; w2:claim /2 ok lease=30 last=2; w2:append 3-3/2 never",
        **_RECORDED,
    ),
    valid("one-writer", "a cancelled end where nobody recorded posts", _LEFT + "3/2 cancelled"),
    invalid(
        "one-writer", "a cancelled end that nobody asked for", _LEFT + "3/2 cancelled", "uncaused-cancel", **_RECORDED
    ),
    invalid(
        "one-writer",
        "a cancel that was only stored",
        _LEFT + "3/2 cancelled; c:post /- ok last=1 outcome=stored",
        "uncaused-cancel",
        **_RECORDED,
    ),
    invalid(
        "one-writer",
        "a cancel that ended the task under another epoch",
        _LEFT + "3/3 cancelled; " + _POST,
        "uncaused-cancel",
        **_RECORDED,
    ),
)

EPOCHS_RISE = (
    valid("epochs-rise", "a cancel takes the next epoch", "row running/1 w1; c:post 2-2/2 ok last=2; end terminal/2"),
    invalid(
        "epochs-rise",
        "a cancel takes the epoch of a worker",
        "row running/1 w1; c:post 2-2/1 ok last=2; end terminal/1",
        "two-owners",
    ),
)

ACKED_STAYS = (
    valid("acked-stays", "a cancel that ended its task", _LEFT + "3/2 cancelled; " + _POST),
    valid(
        "acked-stays",
        "a cancel of unknown outcome that landed",
        _LEFT + "3/2 cancelled; c:post / unknown hash=h3 expects=-",
    ),
    valid("acked-stays", "one that did not", _LEFT + "3/1 replied; c:post / unknown hash=x expects=-"),
    valid(
        "acked-stays",
        "not sent, and then sent again",
        _LEFT + "3/2 cancelled; c:post / unavailable hash=h3 expects=-; " + _POST,
    ),
    valid(
        "acked-stays",
        "not sent, and ended by an owner that took another order with the same words",
        _LEFT + "3/2 cancelled; c:post / unavailable hash=h3 expects=-; w2:append 3-3/2 ok last=3",
    ),
    invalid("acked-stays", "an acknowledged cancel is gone", _LEFT + _POST, "lost"),
    invalid(
        "acked-stays",
        "an acknowledged cancel became something else",
        _LEFT + "3/2 failed x hash=y; " + _POST,
        "changed",
    ),
    invalid(
        "acked-stays",
        "a cancel that was answered as not made",
        _LEFT + "3/2 cancelled; c:post / unavailable hash=h3 expects=-",
        "refused-landed",
    ),
)

TERMINAL_IS_FINAL = (
    invalid("terminal-is-final", "a cancel after the end", _LEFT + "3/1 completed; 4/2 cancelled", "entry-after-end"),
)

ROW_AGREES = (
    valid(
        "row-agrees",
        "a cancel of a waiting task",
        "1/0 created; 2/1 suspended human; row suspended/1 last=2 on=human; 3/2 cancelled; end terminal/2 last=3",
    ),
    valid(
        "row-agrees",
        "the limit of a wait is over",
        "1/0 created; 2/1 suspended human:q@3; row pending/1 last=2 at=4",
    ),
    invalid(
        "row-agrees",
        "a row that forgot the limit of its wait",
        "1/0 created; 2/1 suspended human:q@90; row suspended/1 last=2 on=human:q",
        "other-wait",
    ),
    invalid(
        "row-agrees",
        "a limit before it is over",
        "1/0 created; 2/1 suspended human:q@90; row pending/1 last=2 at=4",
        "woken-by-nothing",
    ),
)

_CALL = "1/0 created; 2/1 called; 3/1 replied wait; 4/1 started 3-0; "
_CALLS = "1/0 created; 2/1 called; 3/1 replied wait,wait; 4/1 started 3-0; 5/1 parked 3-0 event:a; 6/1 started 3-1; "
_PARKED = _CALL + "5/1 parked 3-0 event:rain; "
_RESTS = _PARKED + "6/1 suspended event:rain; "
_WOKEN = _RESTS + "7/2 woken 1 event:rain; "

CALLS_PAIR = (
    valid("calls-pair", "a parked call, woken", _WOKEN + "8/2 finished 3-0 woken; 9/2 called"),
    valid("calls-pair", "a parked call at rest", _RESTS),
    valid("calls-pair", "woken, and its worker lost", _WOKEN + "8/3 finished 3-0 woken"),
    valid(
        "calls-pair",
        "two parked calls, one after the other",
        _CALLS + "7/1 parked 3-1 event:b; 8/1 suspended event:a; 9/2 woken 1 event:a; 10/2 finished 3-0 woken; "
        "11/2 suspended event:b; 12/3 woken 2 event:b; 13/3 finished 3-1 woken; 14/3 called",
    ),
    valid(
        "calls-pair",
        "a park and a call that ran",
        _CALLS + "7/1 finished 3-1; 8/1 suspended event:a; 9/2 woken 1 event:a; 10/2 finished 3-0 woken; 11/2 called",
    ),
    valid(
        "calls-pair",
        "a turn that failed with a call parked",
        _PARKED + "6/1 turnfailed internal_error; 7/1 suspended human",
    ),
    valid(
        "calls-pair",
        "closed while it waited",
        _RESTS + "7/2 woken 1 close; 8/2 suspended human reason=closed; 9/3 woken 2 human",
    ),
    valid("calls-pair", "cancelled while it waited", _RESTS + "7/2 cancelled"),
    valid(
        "calls-pair",
        "parked by the worker that took over",
        _CALL + "5/2 sealed 4; 6/2 parked 3-0 event:rain; 7/2 suspended event:rain",
    ),
    invalid(
        "calls-pair",
        "parked before it started",
        "1/0 created; 2/1 called; 3/1 replied wait; 4/1 parked 3-0 event:rain",
        "parked-unstarted",
    ),
    invalid("calls-pair", "the model is called beside a parked call", _PARKED + "6/1 called", "park-unanswered"),
    invalid(
        "calls-pair",
        "the turn ends beside a parked call",
        _RESTS + "7/2 woken 1 close; 8/2 suspended human",
        "park-unanswered",
    ),
    invalid("calls-pair", "answered, and its result is not told", _WOKEN + "8/2 called", "park-unanswered"),
    invalid("calls-pair", "a result before the wake", _PARKED + "6/1 finished 3-0 woken", "other-answer"),
    invalid("calls-pair", "a parked call that then ran", _WOKEN + "8/2 finished 3-0 ran", "other-answer"),
    invalid("calls-pair", "woken without a park", _CALL + "5/1 finished 3-0 woken", "other-answer"),
    invalid("calls-pair", "started again while it waits", _PARKED + "6/2 started 3-0 2", "other-answer"),
    invalid("calls-pair", "parked twice", _PARKED + "6/1 parked 3-0 event:rain", "other-answer"),
    invalid(
        "calls-pair",
        "parked after its result",
        _CALL + "5/1 finished 3-0; 6/1 parked 3-0 event:rain",
        "started-after-end",
    ),
)

SAME_REQUEST = (
    valid(
        "same-request",
        "an order closed the turn in the middle of the call",
        "1/0 created; 2/1 called r; 3/2 sealed 2; 4/2 called r; 5/2 taken 1 close; 6/2 sealed 4; 7/2 suspended human "
        "reason=closed; 8/3 woken 2 human; 9/3 called s",
    ),
)

EFFECTS = (
    valid(
        "effect-at-most-once",
        "a call that waits journals nothing",
        _WOKEN + "8/2 finished 3-0 woken; on u; 1/0 created; 2/1 called; 3/1 replied pay; 4/1 started 3-0; "
        "5/1 finished 3-0; effect 3-0#1 pay",
    ),
)

_FINE = "; ".join(f"on u{n}; 1/0 created; 2/1 completed yes; script completed answer=yes" for n in range(20))
_ORDERED = "script completed answer=yes turns=1 calls=pay:3 cancels=c; 1/0 created; "
_LONG = "script waiting turns=3 calls=pay:2 failures=llm_error cancels=c; 1/0 created; "
_CANCELLED = "9/9 cancelled; sent c 9 cancelled"
_PARENT = "1/0 created; 2/1 called; 3/1 cancelled at=20; end terminal/1 last=3"
_CHILD = "on t.3-0.1; script completed; 1/0 created parent=t root=t depth=1 at=4; "

SCRIPT_FINISHED = (
    valid("script-finished", "cancelled, as its client was told", _ORDERED + "sent c 1 cancelled; 2/1 cancelled"),
    valid(
        "script-finished",
        "the order was stored, and the worker took it",
        _ORDERED + "sent c 1; 2/1 called; 3/1 cancelled",
    ),
    valid("script-finished", "a cancel of unknown outcome that landed", _ORDERED + "sent c - unknown; 2/1 cancelled"),
    valid(
        "script-finished",
        "a cancel of unknown outcome that did not",
        "script completed answer=yes cancels=c; 1/0 created; sent c - unknown; 2/1 completed yes",
    ),
    valid(
        "script-finished",
        "a cancel that was refused",
        "script completed answer=yes cancels=c; 1/0 created; 2/1 completed yes; sent c - ended",
    ),
    valid(
        "script-finished",
        "a failure that came first",
        "script failed reason=llm_error failures=llm_error cancels=c; 1/0 created; sent c 1; 2/1 turnfailed llm_error; "
        "3/1 failed llm_error",
    ),
    valid(
        "script-finished", "its parent had ended", _PARENT + "; " + _CHILD + "2/1 cancelled reason=parent-ended at=21"
    ),
    valid(
        "script-finished",
        "its parent gave the call up",
        "1/0 created; 2/1 turnfailed internal_error at=10; 3/1 suspended human; end suspended/1 last=3 on=human; "
        + _CHILD
        + "2/1 cancelled reason=given-up at=11",
    ),
    valid(
        "script-finished",
        "half of its turns and calls, a foretold failure, and then its cancel",
        _LONG + "2/1 called; 3/1 replied pay; 4/1 turnfailed llm_error; 5/1 suspended human; " + _CANCELLED,
    ),
    valid(
        "script-finished",
        "the order was taken, and its worker died",
        _LONG + "2/1 called; 3/1 taken 1 cancel; 4/2 sealed 2; 5/2 cancelled; sent c 1",
    ),
    valid(
        "script-finished",
        "its host reopened it after an order",
        _LONG + "2/1 taken 1 cancel; 3/1 suspended human; 4/2 woken 2 human; 5/2 called; 6/2 cancelled; sent c 3",
    ),
    valid(
        "script-finished",
        "cancelled beside messages that share a turn, after the same failure twice",
        "script completed failures=llm_error cancels=c; 1/0 created; 2/1 turnfailed llm_error; 3/1 suspended human; "
        "4/2 woken 1 human; 5/2 turnfailed llm_error; 6/2 suspended human; 7/3 cancelled; sent c 2 cancelled",
    ),
    invalid(
        "script-finished",
        "cancelled after more calls than foretold",
        _LONG + "2/1 called; 3/1 replied pay,pay,pay; " + _CANCELLED,
        "wrong-calls",
    ),
    invalid(
        "script-finished",
        "cancelled after a call that nobody foretold",
        _LONG + "2/1 called; 3/1 replied book; " + _CANCELLED,
        "wrong-calls",
    ),
    invalid(
        "script-finished",
        "cancelled after a turn failed that should not",
        _LONG + "2/1 turnfailed llm_truncated; 3/1 suspended human; " + _CANCELLED,
        "turn-failed",
    ),
    invalid(
        "script-finished",
        "cancelled after more turns than foretold",
        _LONG + "2/1 suspended human; 3/2 woken 1 human; 4/2 suspended human; 5/3 woken 2 human; 6/3 suspended human; "
        "7/4 woken 3 human; 8/4 suspended human; " + _CANCELLED,
        "wrong-turns",
    ),
    invalid(
        "script-finished",
        "it went on after it took the order",
        _LONG + "2/1 taken 1 cancel; 3/1 called; 4/1 cancelled; sent c 1",
        "cancel-ignored",
    ),
    invalid(
        "script-finished",
        "it ended before it was cancelled",
        _LONG + "2/1 completed yes; 3/2 cancelled; sent c 1 cancelled",
        "cancel-ignored",
    ),
    invalid(
        "script-finished",
        "cancelled by its parent's end after more calls than foretold",
        _PARENT + "; " + _CHILD.replace("completed;", "completed calls=pay:1;") + "2/1 called; 3/1 replied pay,pay; "
        "4/1 cancelled reason=parent-ended at=21",
        "wrong-calls",
    ),
    invalid(
        "script-finished",
        "an accepted cancel that nobody heard",
        "script completed answer=yes cancels=c; 1/0 created; sent c 1; 2/1 completed yes",
        "cancel-ignored",
    ),
    invalid(
        "script-finished",
        "cancelled, although the cancel was refused",
        "script completed cancels=c; 1/0 created; 2/1 cancelled; sent c - ended",
        "wrong-outcome",
    ),
    invalid(
        "script-finished",
        "cancelled by nobody",
        "script completed cancels=c; 1/0 created; 2/1 cancelled",
        "wrong-outcome",
    ),
    invalid(
        "script-finished",
        "cancelled for its parent's end before that ended",
        _PARENT + "; " + _CHILD + "2/1 cancelled reason=parent-ended at=19",
        "wrong-outcome",
    ),
    invalid(
        "script-finished",
        "given up by a parent that gave nothing up",
        _PARENT + "; " + _CHILD + "2/1 cancelled reason=given-up at=21",
        "wrong-outcome",
    ),
)

CASES = (
    *ONE_WRITER,
    *EPOCHS_RISE,
    *ACKED_STAYS,
    *TERMINAL_IS_FINAL,
    *ROW_AGREES,
    *CALLS_PAIR,
    *SAME_REQUEST,
    *EFFECTS,
    *SCRIPT_FINISHED,
)
