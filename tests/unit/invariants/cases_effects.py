"""Histories for the laws about what scripts do: effect-at-most-once, script-finished."""

from __future__ import annotations

from tests.unit.invariants.case import invalid, unknown, valid

_PAY = "1/0 created; 2/1 called; 3/1 replied pay; 4/1 started 3-0; "
_READ = "1/0 created; 2/1 called; 3/1 replied read; 4/1 started 3-0; "
_OTHER = "; on u; 1/0 created; 2/1 called; 3/1 replied pay; 4/1 started 3-0; 5/1 finished 3-0; effect 3-0#1 pay"

EFFECT_AT_MOST_ONCE = (
    valid("effect-at-most-once", "ran once", _PAY + "effect 3-0#1 pay; 5/1 finished 3-0"),
    valid(
        "effect-at-most-once",
        "unknown, with its effect",
        _PAY + "effect 3-0#1 pay; 5/2 sealed 4; 6/2 finished 3-0 unknown",
    ),
    valid("effect-at-most-once", "unknown, without", _PAY + "5/2 sealed 4; 6/2 finished 3-0 unknown" + _OTHER),
    valid("effect-at-most-once", "looked up", _PAY + "effect 3-0#1 pay; 5/2 finished 3-0 recovered"),
    valid(
        "effect-at-most-once",
        "started three times, a zombie late",
        _READ + "5/2 started 3-0 2; 6/3 started 3-0 3; effect 3-0#3 read w3; 7/3 finished 3-0; effect 3-0#1 read w1",
    ),
    valid(
        "effect-at-most-once",
        "looked up after a second start, a frozen first one late",
        _READ + "5/2 started 3-0 2; effect 3-0#2 read; 6/3 finished 3-0 recovered; effect 3-0#1 read",
    ),
    valid("effect-at-most-once", "an error before any effect", _PAY + "5/1 finished 3-0 error" + _OTHER),
    valid(
        "effect-at-most-once",
        "a tool without a journal",
        "1/0 created; 2/1 called; 3/1 replied mute; 4/1 started 3-0; 5/1 finished 3-0" + _OTHER,
    ),
    valid(
        "effect-at-most-once",
        "other lines are no effects",
        _PAY + "effect 3-0#1 pay; effect 3-0#1 pay w1 death; 5/1 finished 3-0",
    ),
    invalid(
        "effect-at-most-once",
        "one start, two effects",
        _PAY + "effect 3-0#1 pay w1; effect 3-0#1 pay w2",
        "effect-twice",
    ),
    invalid(
        "effect-at-most-once",
        "retry_safe is no excuse for one token twice",
        _READ + "effect 3-0#1 read w1; effect 3-0#1 read w2",
        "effect-twice",
    ),
    invalid(
        "effect-at-most-once",
        "an effect before its record",
        "1/0 created; 2/1 called; 3/1 replied pay; effect 3-0#1 pay",
        "effect-unlogged",
    ),
    invalid("effect-at-most-once", "finished without its effect", _PAY + "5/1 finished 3-0" + _OTHER, "effect-missing"),
    invalid(
        "effect-at-most-once",
        "an error without its effect",
        "1/0 created; 2/1 called; 3/1 replied breaks; 4/1 started 3-0; 5/1 finished 3-0 error" + _OTHER,
        "effect-missing",
    ),
    invalid(
        "effect-at-most-once",
        "only an earlier start had its effect",
        _READ + "5/2 started 3-0 2; effect 3-0#1 read; 6/2 finished 3-0",
        "effect-missing",
    ),
    invalid(
        "effect-at-most-once",
        "looked up what never was",
        _PAY + "5/2 finished 3-0 recovered" + _OTHER,
        "recovered-count",
    ),
    invalid(
        "effect-at-most-once", "a payment made again", _PAY + "5/2 started 3-0 2; effect 3-0#1 pay", "started-twice"
    ),
    invalid(
        "effect-at-most-once", "one start logged twice", _READ + "5/2 started 3-0 1; effect 3-0#1 read", "started-twice"
    ),
    invalid(
        "effect-at-most-once",
        "a fourth start",
        _READ + "5/2 started 3-0 2; 6/3 started 3-0 3; 7/4 started 3-0 4; effect 3-0#4 read",
        "too-many-starts",
    ),
    invalid(
        "effect-at-most-once",
        "starts misnumbered",
        "1/0 created; 2/1 called; 3/1 replied read; 4/1 started 3-0 2; effect 3-0#2 read",
        "starts-misnumbered",
    ),
    invalid(
        "effect-at-most-once", "a token of another call", _PAY + "effect 3-0#1 pay w1 token=t:9-9:1", "token-forged"
    ),
    unknown("effect-at-most-once", "nobody kept a journal", _PAY + "5/1 finished 3-0"),
    unknown(
        "effect-at-most-once",
        "nobody says what the tool promises",
        "1/0 created; 2/1 called; 3/1 replied odd; 4/1 started 3-0; effect 3-0#1 odd",
    ),
    unknown("effect-at-most-once", "nothing", ""),
)

_KILLS = "fault kill w1 t@1; fault kill w2 t@2; fault kill w3 t@3"
_THREE = "1/0 created; 2/1 called; 3/2 sealed 2; 4/2 called; 5/3 sealed 4; 6/3 called; 7/4 sealed 6; "
_FAILED = _THREE + "8/4 turnfailed llm_error; 9/4 failed llm_error"
_SAME_EPOCH = (
    "1/0 created; 2/1 called; 3/1 sealed 2; 4/1 called; 5/2 sealed 4; 6/2 called; "
    "7/3 turnfailed llm_error; 8/3 failed llm_error"
)
_FINE = "; ".join(f"on u{n}; 1/0 created; 2/1 completed yes; script completed answer=yes" for n in range(20))
_LOST_CALL = _PAY + "5/2 sealed 4; 6/2 finished 3-0 unknown; 7/2 called; 8/2 replied; 9/2 completed no"
_LOST_END = (
    "9/4 called; 10/4 replied pay; 11/4 started 10-0; 12/5 sealed 11; 13/5 finished 10-0 unknown; 14/5 completed no; "
    "fault kill w4 t@4"
)
_FAILED_TWICE = (
    "1/0 created; 2/1 called; 3/1 turnfailed llm_error; 4/1 suspended human; 5/2 woken 1 human; 6/2 called; "
    "7/2 turnfailed llm_error; 8/2 suspended human"
)

SCRIPT_FINISHED = (
    valid(
        "script-finished",
        "as foretold",
        "script completed answer=yes calls=pay:1 turns=1; "
        + _PAY
        + "5/1 finished 3-0; 6/1 called; 7/1 replied; 8/1 completed yes",
    ),
    valid(
        "script-finished",
        "waits, as foretold",
        "script waiting answer=yes turns=1; 1/0 created; 2/1 suspended human answer=yes",
    ),
    valid("script-finished", "fails, as foretold", "script failed reason=llm_error failures=llm_error; " + _FAILED),
    valid(
        "script-finished",
        "its messages taken",
        "script completed messages=a; 1/0 created; sent a 1; 2/1 taken 1; 3/1 completed; end terminal/1 last=3",
    ),
    valid("script-finished", "three attempts, three kills", f"script completed; {_FAILED}; {_KILLS}; {_FINE}"),
    valid(
        "script-finished",
        "a call lost to a kill, so another answer",
        f"script completed answer=yes; {_LOST_CALL}; {_KILLS}; {_FINE}",
    ),
    invalid(
        "script-finished",
        "not done: slow",
        "script completed; 1/0 created; 2/1 called; end running/1 w1 last=2",
        "unfinished",
    ),
    invalid(
        "script-finished",
        "not done: stuck",
        "script completed; 1/0 created; 2/1 called; end pending/1 last=2 at=90",
        "unfinished",
    ),
    invalid("script-finished", "never began", "script completed", "unfinished"),
    invalid(
        "script-finished", "fails instead", "script completed; 1/0 created; 2/1 failed internal_error", "wrong-outcome"
    ),
    invalid(
        "script-finished",
        "three attempts, two kills",
        f"script completed; {_FAILED}; fault kill w1 t@1; fault kill w2 t@2",
        "wrong-outcome",
    ),
    invalid(
        "script-finished",
        "the faults hit other tasks",
        f"script completed; {_FAILED}; fault kill w1 u@1,u@2,u@3",
        "wrong-outcome",
    ),
    invalid(
        "script-finished", "two attempts under one epoch", f"script completed; {_SAME_EPOCH}; {_KILLS}", "wrong-outcome"
    ),
    invalid(
        "script-finished",
        "three attempts, three kills, but the provider was at fault",
        f"script completed; {_THREE}8/4 turnfailed llm_error provider; 9/4 failed llm_error; {_KILLS}",
        "wrong-outcome",
    ),
    *(
        invalid(
            "script-finished",
            f"three attempts, three kills, and then {reason}",
            f"script completed; {_THREE}8/4 turnfailed llm_error; 9/4 failed {reason}; {_KILLS}",
            "wrong-outcome",
        )
        for reason in ("internal_error", "max_attempts_exceeded", "unreadable_log")
    ),
    invalid(
        "script-finished",
        "a turn fails by a bug beside an excused bound",
        f"script completed; {_THREE}8/4 turnfailed internal_error; {_LOST_END}; {_KILLS}",
        "turn-failed",
    ),
    valid(
        "script-finished",
        "a reason that the script foretells beside an excused bound",
        f"script completed failures=internal_error answer=yes; {_THREE}8/4 turnfailed internal_error; {_LOST_END}; "
        f"{_KILLS}; {_FINE}",
    ),
    invalid(
        "script-finished",
        "a script without excuses",
        f"script completed excusable=; {_FAILED}; {_KILLS}",
        "wrong-outcome",
    ),
    invalid(
        "script-finished",
        "taken over ten times with no fault",
        "script completed; 1/0 created; 2/1 called; 3/12 failed stale_reclaim_exceeded",
        "wrong-outcome",
    ),
    invalid(
        "script-finished",
        "fails for another reason",
        "script failed reason=llm_error; 1/0 created; 2/1 failed internal_error",
        "wrong-reason",
    ),
    invalid(
        "script-finished",
        "a turn fails on the way",
        "script completed; 1/0 created; 2/1 called; 3/1 turnfailed llm_error; 4/1 completed",
        "turn-failed",
    ),
    valid(
        "script-finished",
        "a failed turn that a message opened again, when turns are not counted",
        f"script waiting failures=llm_error; {_FAILED_TWICE}",
    ),
    invalid(
        "script-finished",
        "a failed turn more than foretold, when turns are counted",
        f"script waiting failures=llm_error turns=2; {_FAILED_TWICE}",
        "turn-failed",
    ),
    invalid(
        "script-finished",
        "a foretold failure does not come",
        "script waiting failures=llm_error; 1/0 created; 2/1 suspended human",
        "turn-failed",
    ),
    invalid(
        "script-finished",
        "another answer",
        "script completed answer=yes; 1/0 created; 2/1 completed no",
        "wrong-answer",
    ),
    invalid(
        "script-finished", "a call lost with no fault", f"script completed answer=yes; {_LOST_CALL}", "wrong-answer"
    ),
    invalid(
        "script-finished",
        "a turn more",
        "script waiting turns=1; 1/0 created; 2/1 suspended human; 3/2 woken 1 human; 4/2 suspended human",
        "wrong-turns",
    ),
    invalid(
        "script-finished",
        "a call less",
        "script completed calls=pay:2; " + _PAY + "5/1 finished 3-0; 6/1 completed",
        "wrong-calls",
    ),
    invalid(
        "script-finished",
        "a message left lying",
        "script waiting messages=a; 1/0 created; sent a 1; 2/1 suspended human:q; "
        "end suspended/1 last=2 on=human:q unread=1:human inbox=1",
        "message-untaken",
    ),
    unknown("script-finished", "most outcomes are excused", f"script completed; {_FAILED}; {_KILLS}"),
    unknown("script-finished", "no script", "1/0 created; 2/1 completed"),
    unknown("script-finished", "nothing", ""),
)

CASES = (*EFFECT_AT_MOST_ONCE, *SCRIPT_FINISHED)
