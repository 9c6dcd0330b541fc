"""Histories for the law about children: children-once. ``t`` delegates with call 3-0."""

from __future__ import annotations

from tests.unit.invariants.case import Case, invalid, unknown, valid

_CALL = "1/0 created; 2/1 called; 3/1 replied wait; 4/1 started 3-0; "
_ONE = _CALL + "5/1 parked 3-0 child:t.3-0.1 children=t.3-0.1 at=5; 6/1 suspended child:t.3-0.1; "
_TWO = _CALL + "5/1 parked 3-0 group:t.3-0/2 children=t.3-0.1,t.3-0.2 at=5; 6/1 suspended group:t.3-0/2; "
_BACK = _CALL + "5/1 finished 3-0 children=t.3-0.1 at=5; "
_BORN = "1/0 created parent=t root=t depth=1 at=5; "
_MEMBER = "1/0 created parent=t group=t.3-0 root=t depth=1 at=5; "
_LOOSE = "1/0 created parent=t group=background root=t depth=1 at=5; "

_REPORTS = "2/1 called; 3/1 replied SubagentHandback; 4/1 started 3-0; 5/1 finished 3-0; 6/1 completed at=8"


def on(child: str, story: str, status: str = "terminal/1 last=2", group: str = "") -> str:
    """A child of ``t`` and its row."""
    return f"; on {child}; {story}; end {status} parent=t" + (f" group={group}" if group else "")


_DONE = on("t.3-0.1", _BORN + "2/1 completed at=8")
_RUNS = on("t.3-0.1", _BORN + "2/1 called", "running/1 w1 last=2")
_WOKEN = "7/2 woken 1 child:t.3-0.1 at=9; 8/2 finished 3-0 woken; end running/2 w2 last=8 inbox=1"
_END = "end suspended/1 last=6 on=child:t.3-0.1 at=90"

_BIRTHS = (
    valid("children-once", "one child, its result taken", _ONE + _WOKEN + _DONE),
    valid("children-once", "one child at work", _ONE + _END + _RUNS),
    valid(
        "children-once",
        "a group, in birth order",
        _TWO
        + "7/2 woken 2,1 group:t.3-0/2!t.3-0.1+t.3-0.2 at=9; end running/2 w2 last=7 inbox=2"
        + on("t.3-0.1", _MEMBER + "2/1 completed at=8", group="t.3-0")
        + on("t.3-0.2", _MEMBER + "2/1 completed at=7", group="t.3-0"),
    ),
    valid(
        "children-once",
        "in the background, told to the root, with a report before",
        _BACK
        + "6/1 taken 1 report:t.3-0.1 at=7; 7/1 taken 2 told:t.3-0.1 at=9; end running/1 w1 last=7 inbox=2"
        + on("t.3-0.1", _LOOSE + _REPORTS, "terminal/1 last=6", group="background"),
    ),
    valid(
        "children-once",
        "a grandchild in the background belongs to the root",
        _ONE
        + _END
        + on(
            "t.3-0.1",
            _BORN + "2/1 called; 3/1 replied wait; 4/1 started 3-0; 5/1 finished 3-0 children=t.3-0.1.3-0.1 at=20",
            "running/1 w1 last=5",
        )
        + on(
            "t.3-0.1.3-0.1",
            "1/0 created parent=t group=background root=t depth=2 at=20",
            "pending/0 last=1",
            "background",
        ),
    ),
    valid(
        "children-once", "a child that nobody copied, and the copy is known to be short", _ONE + _END, kin_whole=False
    ),
    valid(
        "children-once",
        "a child born after its bearer was read",
        _CALL
        + "end running/1 w1 last=4"
        + on("t.4-0.1", "1/0 created parent=t root=t depth=1 at=80", "pending/0 last=1"),
    ),
    invalid("children-once", "a child that is not there", _ONE + _END, "unborn"),
    invalid(
        "children-once",
        "a child that no entry names",
        _CALL
        + "end running/1 w1 last=4"
        + on("t.3-0.1", "1/0 created parent=t root=t depth=1 at=4", "pending/0 last=1"),
        "unnamed",
    ),
    invalid(
        "children-once",
        "the same, when nobody wrote any more",
        _CALL
        + "end running/1 w1 last=4"
        + on("t.4-0.1", "1/0 created parent=t root=t depth=1 at=80", "pending/0 last=1"),
        "unnamed",
        still=True,
    ),
    invalid("children-once", "a child of nobody", "on t.3-0.1; " + _BORN + "end pending/0 last=1 parent=t", "unnamed"),
    invalid(
        "children-once",
        "born by two entries",
        _ONE + "7/2 woken 1 cancel; 8/2 finished 3-0 children=t.3-0.1 at=5; end running/2 w2 last=8 inbox=1" + _RUNS,
        "born-twice",
    ),
    invalid(
        "children-once",
        "born before the entry that names it",
        _ONE + _END + on("t.3-0.1", "1/0 created parent=t root=t depth=1 at=4", "pending/0 last=1"),
        "born-apart",
    ),
    invalid(
        "children-once",
        "numbered with a gap",
        _CALL
        + "5/1 parked 3-0 child:t.3-0.2 children=t.3-0.2 at=5; end running/1 w1 last=5"
        + on("t.3-0.2", _BORN.strip("; "), "pending/0 last=1"),
        "misnumbered",
    ),
    invalid(
        "children-once",
        "another depth",
        _ONE + _END + on("t.3-0.1", "1/0 created parent=t root=t depth=2 at=5", "pending/0 last=1"),
        "wrong-family",
    ),
    invalid(
        "children-once",
        "a background child that belongs to its bearer's group",
        _BACK + "end running/1 w1 last=5" + on("t.3-0.1", _MEMBER.strip("; "), "pending/0 last=1", "t.3-0"),
        "wrong-family",
    ),
    invalid(
        "children-once",
        "a row that names another parent than the birth",
        _ONE + _END + "; on t.3-0.1; " + _BORN + "end pending/0 last=1 parent=u",
        "wrong-family",
    ),
    invalid(
        "children-once",
        "a call that bears a child and waits for another",
        _CALL
        + "5/1 parked 3-0 child:t.9-0.1 children=t.3-0.1 at=5; 6/1 suspended child:t.9-0.1; "
        + "end suspended/1 last=6 on=child:t.9-0.1 at=90"
        + _RUNS,
        "wrong-wait",
    ),
)

_CUT = _ONE + "7/2 woken 1 cancel; 8/2 cancelled at=9; end terminal/2 last=8 inbox=1 stamped="


def left(title: str, how: str, row: str, is_left: bool, sent: str = "") -> Case:
    """A child whose parent ended at 9 s, and what it went on to."""
    story = _CUT + on("t.3-0.1", _BORN + how, row) + sent
    return invalid("children-once", title, story, "left-behind") if is_left else valid("children-once", title, story)


_ORDERED = (
    left("an answer, and no item at all", "2/1 completed at=10", "terminal/1 last=2 stamped=", True),
    left(
        "an answer, and something else was stamped", "2/1 completed at=10", "terminal/1 last=2 stamped=1 order=no", True
    ),
    left("a failure, and no item at all", "2/1 failed llm_error at=10", "terminal/1 last=2 stamped=", True),
    left("a failure beside something else", "2/1 failed llm_error at=10", "terminal/1 last=2 stamped=1 order=no", True),
    left(
        "a failure beside what is known to be a message",
        "2/1 failed llm_error at=10",
        "terminal/1 last=2 inbox=1 stamped=1",
        True,
        "; sent k 1",
    ),
    left(
        "the end of somebody else's order",
        "2/1 taken 1 cancel; 3/1 cancelled at=10",
        "terminal/1 last=3 inbox=1 stamped=",
        True,
    ),
    left("a failure before it heard", "2/1 failed llm_error at=10", "terminal/1 last=2 stamped=1 order=yes", False),
    left("a failure beside nobody knows what", "2/1 failed llm_error at=10", "terminal/1 last=2 stamped=1", False),
    left("an answer beside nobody knows what", "2/1 completed at=10", "terminal/1 last=2", False),
    left("the end it was ordered to", "2/1 taken 1 order; 3/1 cancelled at=10", "terminal/1 last=3 stamped=", False),
    left("an answer at the same instant", "2/1 completed at=9", "terminal/1 last=2 stamped=", False),
    left("an answer before", "2/1 completed at=8", "terminal/1 last=2 stamped=", False),
)

_RESULTS = (
    valid("children-once", "a result that is unread", _ONE + _END + " inbox=1 unread=1:child:t.3-0.1~2" + _DONE),
    valid(
        "children-once",
        "the result of a child that failed",
        _ONE
        + "7/2 woken 1 child:t.3-0.1!failed!llm_error:%20 at=9; end running/2 w2 last=7 inbox=1"
        + on("t.3-0.1", _BORN + "2/1 failed llm_error at=8"),
    ),
    valid(
        "children-once",
        "a result that nobody waits for any more",
        _ONE + "7/2 woken 1 close; 8/2 suspended human reason=closed; 9/3 woken 3 human; "
        "10/3 taken 2 child:t.3-0.1 at=20; end running/3 w3 last=10 inbox=3" + _DONE,
    ),
    valid(
        "children-once",
        "a child that has only just ended beside a row that was read before",
        _ONE + "end suspended/1 last=6 on=child:t.3-0.1 at=9" + _DONE,
    ),
    valid(
        "children-once",
        "a parent that ended needs no result",
        _ONE + "7/2 woken 1 cancel; 8/2 cancelled at=9; end terminal/2 last=8 inbox=1 stamped=" + _DONE,
    ),
    valid(
        "children-once",
        "a child that is ordered to end",
        _CUT + on("t.3-0.1", _BORN + "2/1 called", "running/1 w1 last=2 inbox=1 unread=1:order at=90"),
    ),
    valid(
        "children-once",
        "the same, and its inbox was not read to its end",
        _CUT + on("t.3-0.1", _BORN + "2/1 called", "running/1 w1 last=2 inbox=9 seen=8 at=90"),
    ),
    invalid(
        "children-once",
        "a group's results in another order",
        _TWO
        + "7/2 woken 1,2 group:t.3-0/2!t.3-0.2+t.3-0.1 at=9; end running/2 w2 last=7 inbox=2"
        + on("t.3-0.1", _MEMBER + "2/1 completed at=8", group="t.3-0")
        + on("t.3-0.2", _MEMBER + "2/1 completed at=7", group="t.3-0"),
        "group-order",
    ),
    invalid(
        "children-once",
        "a result in a wake and in a message",
        _ONE
        + "7/2 woken 1 child:t.3-0.1 at=9; 8/2 taken 2 child:t.3-0.1 at=10; end running/2 w2 last=8 inbox=2"
        + _DONE,
        "result-twice",
    ),
    invalid(
        "children-once",
        "a background child told twice",
        _BACK
        + "6/1 taken 1 told:t.3-0.1 at=9; 7/1 taken 2 told:t.3-0.1 at=10; end running/1 w1 last=7 inbox=2"
        + on("t.3-0.1", _LOOSE + "2/1 completed at=8", group="background"),
        "result-twice",
    ),
    invalid("children-once", "the result of a child at work", _ONE + _WOKEN + _RUNS, "result-early"),
    invalid(
        "children-once",
        "other words than the child ended with",
        _ONE + "7/2 woken 1 child:t.3-0.1!completed!almost at=9; end running/2 w2 last=7 inbox=1" + _DONE,
        "other-result",
    ),
    invalid(
        "children-once",
        "a failed child told as completed",
        _ONE + _WOKEN + on("t.3-0.1", _BORN + "2/1 failed llm_error at=8"),
        "other-result",
    ),
    invalid("children-once", "the parent hears nothing", _ONE + _END + _DONE, "result-lost"),
    invalid(
        "children-once",
        "the root hears nothing of a child in the background",
        _BACK
        + "6/1 taken 1 report:t.3-0.1 at=7; end running/1 w1 last=6 inbox=1 at=90"
        + on("t.3-0.1", _LOOSE + _REPORTS, "terminal/1 last=6", group="background"),
        "result-lost",
    ),
    invalid(
        "children-once",
        "one report, heard twice",
        _BACK
        + "6/1 taken 1 report:t.3-0.1 at=7; 7/1 taken 2 report:t.3-0.1 at=7; 8/1 taken 3 told:t.3-0.1 at=9; "
        + "end running/1 w1 last=8 inbox=3"
        + on("t.3-0.1", _LOOSE + _REPORTS, "terminal/1 last=6", group="background"),
        "report-twice",
    ),
    invalid(
        "children-once",
        "its parent ended, and nobody tells it",
        _CUT + on("t.3-0.1", _BORN + "2/1 called", "running/1 w1 last=2 at=90"),
        "left-behind",
    ),
    invalid(
        "children-once",
        "its parent ended, and all it has is somebody else's order",
        _CUT + on("t.3-0.1", _BORN + "2/1 called", "running/1 w1 last=2 inbox=1 unread=1:cancel at=90"),
        "left-behind",
    ),
    *_ORDERED,
    unknown("children-once", "nobody delegates", "1/0 created; 2/1 called; end running/1 w1 last=2"),
    unknown("children-once", "nothing", ""),
)

CASES = (*_BIRTHS, *_RESULTS)
