"""Histories of calls that a person must approve, and of attempts that are parked for one."""

from __future__ import annotations

from tests.unit.invariants.case import invalid, valid

_ASKED = "1/0 created; 2/1 called; 3/1 replied pay; 4/1 asked 3-0 human:ok; 5/1 suspended human:ok; "
_YES = "6/2 woken 1 human:ok!approve; "
_NO = "6/2 woken 1 human:ok!never; "
_LATE = "1/0 created; 2/1 called; 3/1 replied pay; 4/1 asked 3-0 human:ok@5; 5/1 suspended human:ok@5; "
_CUT = "1/0 created; 2/1 called; 3/1 replied pay; 4/1 started 3-0; "
_PARKED = _CUT + "5/2 sealed 4 attempt_parked; 6/2 noticed; 7/2 suspended human reason=attempt_parked"

CALLS_PAIR = (
    valid("calls-pair", "approved, and started", _ASKED + _YES + "7/2 started 3-0; 8/2 finished 3-0; 9/2 called"),
    valid("calls-pair", "not approved, and denied", _ASKED + _NO + "7/2 finished 3-0 denied; 8/2 called"),
    valid(
        "calls-pair",
        "nobody answered in time",
        _LATE + "6/2 woken 1 human:ok@5; 7/2 finished 3-0 denied; 8/2 called",
    ),
    valid(
        "calls-pair",
        "denied by a gate",
        "1/0 created; 2/1 called; 3/1 replied pay; 4/1 finished 3-0 denied; 5/1 called",
    ),
    valid(
        "calls-pair",
        "approved beside a call that runs",
        "1/0 created; 2/1 called; 3/1 replied pay,read; 4/1 asked 3-0 human:ok; 5/1 started 3-1; 6/1 finished 3-1; "
        "7/1 suspended human:ok; 8/2 woken 1 human:ok!approve; 9/2 started 3-0; 10/2 finished 3-0; 11/2 called",
    ),
    valid(
        "calls-pair",
        "approved with another input, cut short and started again",
        "1/0 created; 2/1 called; 3/1 replied read; 4/1 asked 3-0 human:ok with=x; 5/1 suspended human:ok; "
        "6/2 woken 1 human:ok!approve; 7/2 started 3-0 with=x; 8/3 sealed 7; 9/3 started 3-0 2 with=x",
    ),
    valid(
        "calls-pair",
        "an order to stop gives up the approval",
        _ASKED + "6/2 woken 1 close; 7/2 suspended human reason=closed; 8/3 woken 2 human; 9/3 called",
    ),
    valid("calls-pair", "parked for a person, and spoken to", _PARKED + "; 8/3 woken 1 human; 9/3 called"),
    valid(
        "calls-pair",
        "parked, one of two calls looked up, its job lost",
        "1/0 created; 2/1 called; 3/1 replied read,pay; 4/1 started 3-0; 5/2 sealed 4; 6/2 started 3-0 2; "
        "7/3 sealed 6 attempt_parked; 8/3 finished 3-0 recovered; 9/3 noticed; 10/3 joblost 2-0; "
        "11/3 suspended human reason=attempt_parked",
    ),
    invalid("calls-pair", "started while a person is asked", _ASKED + "6/2 started 3-0", "other-answer"),
    invalid("calls-pair", "denied while a person is asked", _ASKED + "6/2 finished 3-0 denied", "other-answer"),
    invalid(
        "calls-pair",
        "denied although it was approved",
        _ASKED + _YES + "7/2 started 3-0; 8/2 finished 3-0 denied",
        "other-answer",
    ),
    invalid("calls-pair", "started although it was not approved", _ASKED + _NO + "7/2 started 3-0", "other-answer"),
    invalid(
        "calls-pair",
        "the answer that denies it is its result",
        _ASKED + _NO + "7/2 finished 3-0 woken",
        "other-answer",
    ),
    invalid("calls-pair", "denied after it was started", _CUT + "5/1 finished 3-0 denied", "other-answer"),
    invalid("calls-pair", "a call that runs is asked about", _CUT + "5/1 asked 3-0 human:ok", "asked-late"),
    invalid(
        "calls-pair",
        "a recovered call is asked about",
        _ASKED + _YES + "7/2 started 3-0; 8/3 sealed 7; 9/3 asked 3-0 human:ok",
        "asked-late",
    ),
    invalid(
        "calls-pair",
        "asked twice",
        _ASKED + "6/2 asked 3-0 human:ok",
        "asked-late",
    ),
    invalid("calls-pair", "asked about a call of no reply", "1/0 created; 2/1 asked 1-0 human:ok", "unknown-call"),
    invalid(
        "calls-pair",
        "the model is asked before the person has answered",
        _ASKED + "6/2 called",
        "park-unanswered",
    ),
    invalid(
        "calls-pair",
        "it runs with another input than was approved",
        "1/0 created; 2/1 called; 3/1 replied pay; 4/1 asked 3-0 human:ok with=x; 5/1 suspended human:ok; "
        "6/2 woken 1 human:ok!approve; 7/2 started 3-0 with=y",
        "other-input",
    ),
    invalid(
        "calls-pair",
        "it runs with another input when it is started again",
        "1/0 created; 2/1 called; 3/1 replied read; 4/1 started 3-0 with=x; 5/2 sealed 4; 6/2 started 3-0 2",
        "other-input",
    ),
    invalid("calls-pair", "sealed for a person, and no more", _CUT + "5/2 sealed 4 attempt_parked", "park-torn"),
    invalid(
        "calls-pair",
        "sealed for a person, and the next owner goes on",
        _CUT + "5/2 sealed 4 attempt_parked; 6/3 noticed; 7/3 suspended human reason=attempt_parked",
        "park-torn",
    ),
    invalid(
        "calls-pair",
        "parked without a notice",
        _CUT + "5/2 sealed 4 attempt_parked; 6/2 suspended human reason=attempt_parked",
        "park-torn",
    ),
    invalid(
        "calls-pair",
        "parked with two notices",
        _CUT + "5/2 sealed 4 attempt_parked; 6/2 noticed; 7/2 noticed; 8/2 suspended human reason=attempt_parked",
        "park-torn",
    ),
    invalid(
        "calls-pair",
        "parked without a seal",
        _CUT + "5/2 sealed 4; 6/2 suspended human reason=attempt_parked",
        "park-torn",
    ),
    invalid(
        "calls-pair",
        "sealed for a person, and run again",
        "1/0 created; 2/1 called; 3/1 replied read; 4/1 started 3-0; 5/2 sealed 4 attempt_parked; 6/2 started 3-0 2",
        "park-torn",
    ),
    invalid(
        "calls-pair",
        "sealed for a person twice",
        _CUT
        + "5/2 sealed 4 attempt_parked; "
        + "6/2 sealed 4 attempt_parked; 7/2 noticed; 8/2 suspended human reason=attempt_parked",
        "park-torn",
    ),
    invalid("calls-pair", "a notice about nothing", "1/0 created; 2/1 called; 3/1 noticed", "park-torn"),
)

EFFECTS = (
    valid(
        "effect-at-most-once",
        "approved, started, done",
        _ASKED + _YES + "7/2 started 3-0; effect 3-0#1 pay; 8/2 finished 3-0",
    ),
    invalid(
        "effect-at-most-once",
        "started before the answer",
        _ASKED + "6/2 started 3-0; effect 3-0#1 pay",
        "started-unapproved",
    ),
    invalid(
        "effect-at-most-once",
        "started although the answer was no",
        _ASKED + _NO + "7/2 started 3-0; effect 3-0#1 pay",
        "started-unapproved",
    ),
    invalid(
        "effect-at-most-once",
        "started since nobody answered",
        _LATE + "6/2 woken 1 human:ok@5; 7/2 started 3-0; effect 3-0#1 pay",
        "started-unapproved",
    ),
    invalid(
        "effect-at-most-once",
        "the end of the time for an answer approves nothing, whatever it says",
        _LATE + "6/2 woken 1 human:ok@5!approve; 7/2 started 3-0; effect 3-0#1 pay",
        "started-unapproved",
    ),
    invalid(
        "effect-at-most-once",
        "denied, and done all the same",
        _ASKED + _NO + "7/2 finished 3-0 denied; effect 3-0#1 pay",
        "effect-denied",
    ),
)

_IDLE = {"idle_since": {"default": 0}}
_KILL = "fault kill w1 t@1; "
_FINE = "; ".join(f"on u{n}; 1/0 created; 2/1 completed yes; script completed answer=yes" for n in range(20))
_WENT_ON = "; 8/3 woken 1 human; 9/3 called; 10/3 replied; 11/3 completed no; "

PARKS = (
    valid("never-stuck", "parked for a person", _PARKED + "; end suspended/2 last=7 on=human at=900", **_IDLE),
    valid("bounded", "a parked attempt counts for nothing", _PARKED),
    invalid("bounded", "a notice that says nothing", _CUT + "5/2 sealed 4 attempt_parked; 6/2 noticed -", "no-reason"),
    valid("wake-once", "asked, and answered", _ASKED + _YES + "7/2 started 3-0"),
    invalid(
        "wake-once",
        "the answer of a person is taken past the call that asked",
        "1/0 created; 2/1 called; 3/1 replied pay; 4/1 asked 3-0 human:ok; 5/1 taken 1 human:ok!approve",
        "swallowed",
    ),
    valid(
        "script-finished",
        "a call lost to a kill and parked, so another answer",
        "script completed answer=yes; " + _PARKED + _WENT_ON + _KILL + _FINE,
    ),
    invalid(
        "script-finished",
        "a call parked with no fault",
        "script completed answer=yes; " + _PARKED + _WENT_ON + _FINE,
        "wrong-answer",
    ),
)

CASES = (*CALLS_PAIR, *EFFECTS, *PARKS)
