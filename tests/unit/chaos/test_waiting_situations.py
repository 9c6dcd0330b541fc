"""Each situation of waiting, delegating and cancelling is counted where it happened, and nowhere else."""

from __future__ import annotations

from collections import Counter

import pytest

from noeta.chaos.situations import SITUATIONS, count_situations
from noeta.chaos.waiting_situations import WAITING
from noeta.core import texts
from noeta.core.events import ToolFinished
from tests.unit.invariants.history import H

_CALL = "1/0 created; 2/1 called; 3/1 replied wait; 4/1 started 3-0; "
_CHILD = (
    "; on t.3-0.1; 1/0 created parent=t root=t depth=1 at=5; 2/1 completed at={ended}; end terminal/1 last=2 parent=t"
)
_ONE = _CALL + "5/1 parked 3-0 child:t.3-0.1 children=t.3-0.1 at=5; 6/1 suspended child:t.3-0.1 at=6; "
_ASKED = "1/0 created; 2/1 suspended human:q; "
_CANCEL = "c:post {seq}-{seq}/{epoch} ok last={seq} outcome=cancelled; "
_TIMER = "1/0 created; 2/1 suspended timer:3; "

HAPPENED = (
    ("child-born", _ONE),
    ("child-born", _CALL + "5/1 finished 3-0 children=t.3-0.1"),
    ("group-born", _CALL + "5/1 parked 3-0 group:t.3-0/2 children=t.3-0.1,t.3-0.2"),
    ("child-faster-than-park", _ONE + "end pending/1 last=6" + _CHILD.format(ended=6)),
    ("child-failed-arrived", _ONE + "7/2 woken 1 child:t.3-0.1!failed!x"),
    (
        "child-cancelled-arrived",
        "1/0 created; 2/1 suspended group:g/1; 3/2 woken 1 group:g/1; 4/2 taken 2 child:a!cancelled!",
    ),
    ("background-result-told", "1/0 created; 2/1 taken 1 told:t.3-0.1"),
    ("handback-told", "1/0 created; 2/1 suspended human; 3/2 woken 1 report:t.3-0.1"),
    ("timer-fired", _TIMER + "3/2 woken 1 timer:3"),
    ("timer-fired-by-claim", _TIMER + "w2:claim /2 ok last=2 outcome=suspended; 3/2 woken 1 timer:3"),
    ("timer-fired-by-sweep", _TIMER + "w2:claim /2 ok last=2 outcome=pending; 3/2 woken 1 timer:3"),
    ("wait-timed-out", "1/0 created; 2/1 suspended event:a@3; 3/2 woken 1 event:a@3"),
    ("early-wake-kept", "1/0 created; row running/1 w1 last=1 inbox=1; 2/1 suspended event:a; 3/1 woken 1 event:a"),
    ("early-wake-kept", "1/0 created; 2/1 taken 2 human; 3/1 suspended event:a; 4/1 woken 1 event:a"),
    ("wake-repeat-dropped", "1/0 created; sent k 1 item=event:a; sent k 1 repeat item=event:a"),
    ("question-answered", _ASKED + "3/2 woken 1 human:q!yes"),
    ("event-received", "1/0 created; 2/1 suspended event:a; 3/2 woken 1 event:a"),
    ("cancelled-while-pending", "1/0 created; row pending/0 last=1; 2/1 cancelled; " + _CANCEL.format(seq=2, epoch=1)),
    (
        "cancelled-while-pending",
        _ASKED + "row pending/1 last=2 unread=1; 3/2 cancelled; " + _CANCEL.format(seq=3, epoch=2),
    ),
    ("cancelled-while-waiting", _ASKED + "row suspended/1 last=2; 3/2 cancelled; " + _CANCEL.format(seq=3, epoch=2)),
    ("cancelled-while-waiting-for-child", _ONE + "7/2 cancelled; " + _CANCEL.format(seq=7, epoch=2)),
    (
        "cancelled-while-lapsed",
        "1/0 created; 2/1 called; row running/1 w1 last=2; 3/2 cancelled; " + _CANCEL.format(seq=3, epoch=2),
    ),
    ("cancelled-while-running", "1/0 created; 2/1 taken 1 cancel; 3/1 cancelled; w1:append 2-3/1 ok last=3"),
    ("cancel-cascaded", "1/0 created; 2/1 cancelled reason=parent-ended; w1:append 2-2/1 ok last=2"),
    ("cancel-refused", "1/0 created; 2/1 completed; sent c - ended item=cancel"),
    ("closed-and-reopened", "1/0 created; 2/1 suspended human reason=closed; 3/2 woken 1 human"),
)

DID_NOT = (
    ("child-faster-than-park", _ONE + "end suspended/1 last=6" + _CHILD.format(ended=7)),
    ("group-born", _ONE),
    ("timer-fired", "1/0 created; 2/1 suspended timer:3; 3/2 woken 1 close"),
    ("timer-fired-by-claim", _ASKED + "w2:claim /2 ok last=2 outcome=pending; 3/2 woken 1 human:q"),
    ("early-wake-kept", "1/0 created; 2/1 suspended event:a; row suspended/1 last=2; 3/2 woken 1 event:a"),
    ("early-wake-kept", _TIMER + "3/2 woken 1 timer:3; 4/2 suspended timer:3"),
    ("question-answered", "1/0 created; 2/1 suspended human; 3/2 woken 1 human"),
    ("wake-repeat-dropped", "1/0 created; sent k 1 item=human; sent k 1 repeat item=human"),
    ("background-result-told", "1/0 created; 2/1 taken 1 report:t.3-0.1"),
    ("handback-told", "1/0 created; 2/1 taken 1 told:t.3-0.1"),
    ("closed-and-reopened", "1/0 created; 2/1 suspended human; 3/2 woken 1 human"),
    ("cancelled-while-running", _ASKED + "3/2 woken 1 cancel; 4/2 cancelled; w2:append 3-4/2 ok last=4"),
    ("cancel-refused", "1/0 created; 2/1 completed; sent c - ended item=human"),
)


def counted(history: str) -> Counter[str]:
    evidence = H(history)
    counts: Counter[str] = Counter()
    for task in evidence.tasks():
        counts.update(count_situations(task, evidence.run.faults, evidence.run.kin))
    return counts


@pytest.mark.parametrize(("situation", "history"), HAPPENED)
def test_a_situation_is_counted_once_where_it_happened(situation: str, history: str) -> None:
    assert counted(history)[situation] == 1


@pytest.mark.parametrize(("situation", "history"), DID_NOT)
def test_a_situation_is_not_counted_where_it_did_not_happen(situation: str, history: str) -> None:
    assert counted(history)[situation] == 0


def test_a_cancelled_task_stood_in_one_place() -> None:
    for situation, history in HAPPENED:
        if situation.startswith("cancelled-while"):
            stood = {name for name in counted(history) if name.startswith("cancelled-while")}
            assert stood == {situation}, history


def test_a_refusal_to_delegate_is_told_by_its_words() -> None:
    told = texts.TOO_DEEP.format(depth=3, depth_max=3)
    evidence = H(_CALL + "5/1 finished 3-0 error")
    (task,) = evidence.tasks()
    last = task.log[-1]
    assert isinstance(last.event, ToolFinished)
    assert not count_situations(task)["depth-refused"]

    refused = type(last)(last.task, last.seq, last.epoch, last.at, ToolFinished("3-0", f"Refused: {told}", True), "h")

    assert count_situations(type(task)(task.task, (*task.log[:-1], refused)))["depth-refused"] == 1


def test_every_situation_of_waiting_is_counted_somewhere_and_named_on_the_report() -> None:
    named = {situation for situation, _ in HAPPENED} | {"depth-refused"}

    assert named == set(WAITING)
    assert set(WAITING) <= set(SITUATIONS)
