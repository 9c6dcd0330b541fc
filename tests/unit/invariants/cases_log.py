"""Histories for the laws that the log alone can break: its shape, its calls, its bounds."""

from __future__ import annotations

from tests.unit.invariants.case import invalid, unknown, valid

GAPLESS_LOG = (
    valid("gapless-log", "three entries", "1/0 created; 2/1 called; 3/2 sealed 2"),
    invalid("gapless-log", "the beginning is missing", "2/1 called; 3/1 replied", "no-beginning"),
    invalid("gapless-log", "a hole", "1/0 created; 3/1 replied", "gap"),
    invalid("gapless-log", "a seq twice", "1/0 created; 2/1 called; 2/1 called", "repeat"),
    invalid("gapless-log", "an old epoch", "1/0 created; 2/2 called; 3/1 replied", "epoch-back"),
    unknown("gapless-log", "a task with no log", "row pending/0"),
    unknown("gapless-log", "nothing", ""),
)

TERMINAL_IS_FINAL = (
    valid("terminal-is-final", "an end", "1/0 created; 2/1 completed; row terminal/1 last=2; end terminal/1 last=2"),
    invalid("terminal-is-final", "an entry after the end", "1/0 created; 2/1 completed; 3/2 called", "entry-after-end"),
    invalid("terminal-is-final", "two ends", "1/0 created; 2/1 completed; 3/2 cancelled", "entry-after-end"),
    invalid(
        "terminal-is-final", "a row leaves the end", "row terminal/1 last=2; row running/2 w2 last=2", "left-terminal"
    ),
    invalid(
        "terminal-is-final", "an ended row grows", "row terminal/1 last=2; end terminal/1 last=3", "grew-after-end"
    ),
    unknown("terminal-is-final", "nothing has ended", "1/0 created; row running/1 w1 last=1"),
    unknown("terminal-is-final", "nothing", ""),
)

CALLS_PAIR = (
    valid(
        "calls-pair",
        "a turn with a call",
        "1/0 created; 2/1 called; 3/1 replied pay; 4/1 started 3-0; 5/1 finished 3-0; 6/1 called; 7/1 replied; 8/1 "
        "completed",
    ),
    valid(
        "calls-pair",
        "a model call cut short, sealed and made again",
        "1/0 created; 2/1 called; 3/2 sealed 2; 4/2 called; 5/2 replied",
    ),
    valid(
        "calls-pair",
        "a tool cut short, sealed and started again",
        "1/0 created; 2/1 called; 3/1 replied read; 4/1 started 3-0; 5/2 sealed 4; 6/2 started 3-0 2; 7/2 finished 3-0",
    ),
    valid(
        "calls-pair",
        "a call cut short and parked",
        "1/0 created; 2/1 called; 3/1 replied pay; 4/1 started 3-0; 5/2 sealed 4; 6/2 suspended human",
    ),
    valid("calls-pair", "a turn that failed", "1/0 created; 2/1 called; 3/1 turnfailed llm_error; 4/1 suspended human"),
    valid(
        "calls-pair",
        "a tool that does not exist",
        "1/0 created; 2/1 called; 3/1 replied nope; 4/1 finished 3-0 error; 5/1 called",
    ),
    valid("calls-pair", "ended in the middle of a call", "1/0 created; 2/1 called; 3/2 cancelled"),
    valid("calls-pair", "a call in flight at the end", "1/0 created; 2/1 called"),
    invalid("calls-pair", "called again without a seal", "1/0 created; 2/1 called; 3/2 called", "call-unanswered"),
    invalid("calls-pair", "rests with a call open", "1/0 created; 2/1 called; 3/1 suspended human", "call-unanswered"),
    invalid("calls-pair", "a reply to nothing", "1/0 created; 2/1 replied; 3/1 called", "reply-uncalled"),
    invalid(
        "calls-pair",
        "the model is called beside an open tool",
        "1/0 created; 2/1 called; 3/1 replied pay; 4/1 started 3-0; 5/1 called",
        "start-unfinished",
    ),
    invalid(
        "calls-pair",
        "started again under the same claim",
        "1/0 created; 2/1 called; 3/1 replied read; 4/1 started 3-0; 5/1 started 3-0 2",
        "start-unfinished",
    ),
    invalid(
        "calls-pair",
        "started after its result",
        "1/0 created; 2/1 called; 3/1 replied read; 4/1 started 3-0; 5/1 finished 3-0; 6/2 started 3-0 2",
        "started-after-end",
    ),
    invalid(
        "calls-pair",
        "two results",
        "1/0 created; 2/1 called; 3/1 replied pay; 4/1 started 3-0; 5/1 finished 3-0; 6/1 finished 3-0",
        "finished-twice",
    ),
    invalid(
        "calls-pair",
        "a result from nowhere",
        "1/0 created; 2/1 called; 3/1 replied pay; 4/1 finished 3-0",
        "finished-unstarted",
    ),
    invalid(
        "calls-pair", "a call nobody asked for", "1/0 created; 2/1 called; 3/1 replied; 4/1 started 3-0", "unknown-call"
    ),
    unknown("calls-pair", "nothing was called", "1/0 created; 2/1 cancelled"),
    unknown("calls-pair", "nothing", ""),
)

SAME_REQUEST = (
    valid(
        "same-request", "called again with the same request", "1/0 created; 2/1 called r; 3/2 sealed 2; 4/2 called r"
    ),
    valid(
        "same-request",
        "another turn, another request",
        "1/0 created; 2/1 called r; 3/1 replied; 4/1 called s; 5/2 sealed 4; 6/2 called s",
    ),
    valid(
        "same-request",
        "after a failed turn",
        "1/0 created; 2/1 called r; 3/1 turnfailed llm_error; 4/1 suspended human; 5/2 woken 1 human; 6/2 called s; "
        "7/3 sealed 6; 8/3 called s",
    ),
    valid(
        "same-request",
        "the engine changed and the entry says so",
        "1/0 created; 2/1 called r engine=a; 3/2 sealed 2; 4/2 called s engine=b",
    ),
    invalid(
        "same-request",
        "another request in the same turn",
        "1/0 created; 2/1 called r; 3/2 sealed 2; 4/2 called s",
        "other-request",
    ),
    invalid(
        "same-request",
        "a message taken into an open turn",
        "1/0 created; 2/1 called r; 3/2 sealed 2; 4/2 taken 1; 5/2 called s",
        "other-request",
    ),
    unknown("same-request", "no model was called", "1/0 created"),
    unknown("same-request", "no call was made again", "1/0 created; 2/1 called r; 3/1 replied; 4/1 called s"),
    unknown("same-request", "nothing", ""),
)

_THREE = "1/0 created; 2/1 called; 3/2 sealed 2; 4/2 called; 5/3 sealed 4; 6/3 called; 7/4 sealed 6; "
_BUG = "turnfailed internal_error"

BOUNDED = (
    valid("bounded", "three calls, then the turn fails", _THREE + "8/4 turnfailed llm_error; 9/4 failed llm_error"),
    valid(
        "bounded",
        "three starts",
        "1/0 created; 2/1 started 1-0; 3/2 started 1-0 2; 4/3 started 1-0 3; 5/4 finished 1-0 unknown",
    ),
    valid(
        "bounded",
        "a reply resets the count",
        "1/0 created; 2/1 called; 3/1 replied; 4/1 called; 5/1 replied; 6/1 called; 7/1 replied; 8/1 called",
    ),
    valid(
        "bounded",
        "a takeover more, the last holder was killed",
        "1/0 created; 2/1 called; fault kill w9 t@12; end running/12 w9 last=2 takeovers=11",
    ),
    invalid("bounded", "a fourth call", _THREE + "8/4 called", "model-attempts"),
    invalid(
        "bounded",
        "a fourth start",
        "1/0 created; 2/1 started 1-0; 3/2 started 1-0 2; 4/3 started 1-0 3; 5/4 started 1-0 4",
        "tool-starts",
    ),
    invalid("bounded", "bugs without end", f"1/0 created; 2/1 {_BUG}; 3/1 {_BUG}; 4/1 {_BUG}", "internal-errors"),
    invalid(
        "bounded", "taken over for ever", "1/0 created; 2/1 called; end running/15 w9 last=2 takeovers=14", "takeovers"
    ),
    invalid("bounded", "a failure without a reason", "1/0 created; 2/1 failed -", "no-reason"),
    invalid("bounded", "a failed turn without a reason", "1/0 created; 2/1 turnfailed -", "no-reason"),
    invalid(
        "bounded",
        "an unknown outcome that tells nothing",
        "1/0 created; 2/1 started 1-0; 3/2 finished 1-0 unknown output=",
        "no-reason",
    ),
    valid("bounded", "as deep as allowed", "1/0 created depth=3; 2/1 called", depth_max=3),
    valid("bounded", "deep, where nobody knows the bound", "1/0 created depth=9; 2/1 called"),
    invalid("bounded", "deeper than allowed", "1/0 created depth=4; 2/1 called", "too-deep", depth_max=3),
    unknown("bounded", "nothing was tried", "1/0 created; 2/1 cancelled"),
    unknown("bounded", "nothing", ""),
)

CASES = (*GAPLESS_LOG, *TERMINAL_IS_FINAL, *CALLS_PAIR, *SAME_REQUEST, *BOUNDED)
