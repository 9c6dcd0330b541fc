"""Bad input: the same named error from every store, before any effect."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, cast

import msgspec
import pytest

from noeta.core import limits
from noeta.core.errors import BadInput, UnknownTask
from noeta.core.events import (
    MessageTaken,
    ModelReplied,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    ToolCall,
    ToolFinished,
    ToolStarted,
)
from noeta.core.store import Child, Claim, Commit, Content, End, NewTask, Post, PutBack, Snapshot, Suspend
from noeta.core.wake import ControlReceived, ExternalEvent, HumanResponseReceived, SubtaskCompleted, TimerFired
from noeta.testing.contract.stage import A_MESSAGE, LEASE, ContractTests, Stage

Attempt = Callable[[Stage, Claim], object]

TASK: Final = NewTask("new", "agent", "goal")
FOUR_BYTES: Final = "\U0001f600"
"""One character: an index counts its bytes."""

NAMES: Final[dict[str, str]] = {
    "empty": "",
    "nul": "a\x00b",
    "lone surrogate": "a\ud800b",
    "8,001 characters": "x" * 8_001,
    "1,604 bytes in 401 characters": FOUR_BYTES * 401,
}
"""Names that some store could not hold, or that break what carries names. https://github.com/oban-bg/oban/issues/791"""

SPANS: Final[dict[str, Any]] = {
    "negative": -1.0,
    "NaN": math.nan,
    "infinite": math.inf,
    "minus infinite": -math.inf,
    "a text": "60",
    "a truth": True,
    "nothing": None,
    "beyond every limit": 1e300,
}


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


VALUES: Final[dict[str, Any]] = {
    "NaN": math.nan,
    "infinity": [math.inf],
    "minus infinity": {"a": {"b": -math.inf}},
    "2**63": 2**63,
    "2**200": [2**200],
    "below 64 bits": -(2**63) - 1,
    "1,100 levels": nested(1_100),
    "100,000 levels": nested(100_000),
    "lone surrogate": "\udfff",
    "lone surrogate in a key": {"\ud800": 1},
    "key that is no text": {1: 2},
    "bytes": b"x",
    "an object": object(),
    "over the limit": "x" * (limits.BODY_BYTES_MAX + 1),
    "over the limit once encoded": "\x00" * (limits.BODY_BYTES_MAX // 4),
}
"""Values that not every store could give back unchanged.

https://github.com/Climate-REF/climate-ref/issues/839 , https://github.com/temporalio/features/issues/487
"""


class Stranger(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """An event and item that is in no vocabulary."""

    text: str = ""


def _create(**changes: Any) -> Attempt:
    return lambda stage, claim: stage.store.create(replace(TASK, **changes))


def _claim(**changes: Any) -> Attempt:
    arguments: dict[str, Any] = {"worker": "w", "queues": None, "lease_seconds": LEASE} | changes
    return lambda stage, claim: stage.store.claim(**arguments)


def _renew(lease_seconds: Any) -> Attempt:
    return lambda stage, claim: stage.store.renew(claim, lease_seconds)


def _append(*entries: Any, **changes: Any) -> Attempt:
    return lambda stage, claim: stage.append(claim, *entries, **changes)


def _post(item: Any, key: Any = None, id: str = "t") -> Attempt:
    return lambda stage, claim: stage.store.post(id, item, key)


REFUSED: Final[dict[str, Attempt]] = {
    **{f"task id: {name}": _create(id=value) for name, value in NAMES.items()},
    "task id: dot": _create(id="a.b"),
    "task id: 201 characters": _create(id="x" * 201),
    "task id: 404 bytes": _create(id=FOUR_BYTES * 101),
    "task id: no text": _create(id=5),
    "task id: bytes": _create(id=b"x"),
    **{f"queue: {name}": _create(queue=value) for name, value in NAMES.items()},
    **{f"agent: {name}": _create(agent=value) for name, value in NAMES.items()},
    "goal: lone surrogate": _create(goal="\ud800"),
    "goal: over the limit": _create(goal="x" * (limits.BODY_BYTES_MAX + 1)),
    "goal: no text": _create(goal=7),
    "interactive: no truth": _create(interactive="yes"),
    **{f"delay: {name}": _create(delay_seconds=value) for name, value in SPANS.items()},
    # -- claims
    **{f"worker: {name}": _claim(worker=value) for name, value in NAMES.items()},
    "worker: no text": _claim(worker=None),
    "queues: a text": _claim(queues="default"),
    "queues: none named": _claim(queues=[]),
    **{f"queues: {name}": _claim(queues=["default", value]) for name, value in NAMES.items()},
    **{f"lease: {name}": _claim(lease_seconds=value) for name, value in SPANS.items()},
    "lease: zero": _claim(lease_seconds=0),
    "lease: more than a week": _claim(lease_seconds=limits.LEASE_SECONDS_MAX + 1),
    **{f"token: {name}": _claim(token=value) for name, value in NAMES.items() if value},
    "limit: zero": _claim(limit=0),
    "limit: negative": _claim(limit=-1),
    "limit: too many": _claim(limit=limits.CLAIM_LIMIT_MAX + 1),
    "limit: a truth": _claim(limit=True),
    "limit: a fraction": _claim(limit=1.5),
    **{f"renewal: {name}": _renew(value) for name, value in SPANS.items()},
    "renewal: zero": _renew(0),
    # -- commits
    **{f"input: {n}": _append(ModelReplied("", (ToolCall("2-0", "t", v),), "tool_use")) for n, v in VALUES.items()},
    "entry: no event": _append({"type": "ToolStarted", "call_id": "2-0", "start": 1}),
    "entry: an unknown kind": _append(Stranger()),
    "entry: an item": _append(A_MESSAGE),
    "entry: a field of another type": _append(ToolStarted("2-0", cast(int, "one"))),
    "entry: a birth": _append(TaskCreated("agent", "goal")),
    "entry: an ending": _append(TaskCompleted("sneaked in")),
    "entry: too many": _append(*[ToolStarted("2-0", 1)] * (limits.COMMIT_PARTS_MAX + 1)),
    "entry: together too big": _append(*[ToolFinished("2-0", "x" * (limits.BODY_BYTES_MAX - 100))] * 5),
    "entry: a good one and a bad one": _append(ToolStarted("2-0", 1), ToolFinished("2-0", "\ud800")),
    "ending: no ending": _append(next=End(cast(Any, ToolStarted("2-0", 1)))),
    "ending: lone surrogate": _append(next=End(TaskFailed("code", "\ud800"))),
    "take: twice": _append(MessageTaken(1, A_MESSAGE), MessageTaken(1, A_MESSAGE)),
    "take: 2**63": _append(MessageTaken(2**63, A_MESSAGE)),
    "expected seq: negative": _append(expected_seq=-1),
    "expected seq: 2**63": _append(expected_seq=2**63),
    "inbox seen: negative": _append(inbox_seen=-1),
    "inbox seen: 2**63": _append(inbox_seen=2**63),
    "wait: no condition": _append(next=Suspend(cast(Any, "until tomorrow"))),
    "wait: a control": _append(next=Suspend(cast(Any, ControlReceived()))),
    "wait: handle too long": _append(next=Suspend(HumanResponseReceived("h" * 8_001))),
    "wait: nul in the handle": _append(next=Suspend(HumanResponseReceived("h\x00"))),
    "wait: timer at NaN": _append(next=Suspend(TimerFired(math.nan))),
    "wait: timer at infinity": _append(next=Suspend(TimerFired(math.inf))),
    "wait: timer at minus infinity": _append(next=Suspend(TimerFired(-math.inf))),
    "wait: timer after the year 9999": _append(next=Suspend(TimerFired(1e18))),
    "wait: limit at NaN": _append(next=Suspend(HumanResponseReceived("h", timeout_at=math.nan))),
    "wait: limit after the year 9999": _append(next=Suspend(ExternalEvent("e", timeout_at=1e18))),
    "wait: limit at a text": _append(next=Suspend(ExternalEvent("e", timeout_at=cast(float, "soon")))),
    "wait: timer at a text": _append(next=Suspend(TimerFired(cast(Any, "tomorrow")))),
    **{f"put back: {n}": _append(next=PutBack(v)) for n, v in SPANS.items()},
    "child: id without parent": _append(children=(Child("other", "a", "g"),)),
    "child: id too long": _append(children=(Child("t." + "x" * 200, "a", "g"),)),
    "child: nul in the id": _append(children=(Child("t.\x00", "a", "g"),)),
    "child: agent empty": _append(children=(Child("t.2-0.0", "", "g"),)),
    "child: goal lone surrogate": _append(children=(Child("t.2-0.0", "a", "\ud800"),)),
    "child: owner beside its parent": _append(children=(Child("t.2-0.0", "a", "g", parent="waiting for a claim"),)),
    "child: owner below its parent": _append(children=(Child("t.2-0.0", "a", "g", parent="t.2-0.0"),)),
    "child: depth 0": _append(children=(Child("t.2-0.0", "a", "g", depth=0),)),
    "child: depth a fraction": _append(children=(Child("t.2-0.0", "a", "g", depth=cast(int, 1.5)),)),
    "child: root lone surrogate": _append(children=(Child("t.2-0.0", "a", "g", root="\ud800"),)),
    **{f"post key: {n}": _append(posts=(Post("t", A_MESSAGE, v),)) for n, v in NAMES.items()},
    "post: a timer": _append(posts=(Post("t", TimerFired(1.0), "k"),)),
    "post: too many": _append(posts=tuple(Post("t", A_MESSAGE, f"k{n}") for n in range(1_001))),
    "content: no bytes": _append(contents=(Content(cast(Any, "text")),)),
    # -- the inbox
    **{f"payload: {name}": _post(ExternalEvent("e", value)) for name, value in VALUES.items()},
    **{f"key: {name}": _post(A_MESSAGE, value) for name, value in NAMES.items()},
    "key: no text": _post(A_MESSAGE, 5),
    **{f"event kind: {name}": _post(ExternalEvent(value)) for name, value in NAMES.items() if value},
    **{f"handle: {name}": _post(HumanResponseReceived(value)) for name, value in NAMES.items() if value},
    "child id: nul": _post(SubtaskCompleted("a\x00b")),
    "group id: 8,001 characters": _post(SubtaskCompleted("a", group_id="g" * 8_001)),
    "item: a timer": _post(TimerFired(1.0)),
    "item: the end of a limit": _post(HumanResponseReceived("h", timeout_at=1.0)),
    "item: an order to another end": _post(ControlReceived("Cancel")),
    "cancel: reason lone surrogate": _post(ControlReceived("cancel", "\ud800")),
    "cancel: key empty": _post(ControlReceived("cancel"), ""),
    "item: no item": _post({"type": "HumanResponseReceived", "handle": "next-goal"}),
    "item: an unknown kind": _post(Stranger()),
    "item: an entry": _post(ToolStarted("2-0", 1)),
    "item: a field of another type": _post(HumanResponseReceived(text=cast(str, 5))),
    "item: an unknown order": _post(ControlReceived("explode")),
    "wake: a timer": lambda stage, claim: stage.store.wake("t", TimerFired(1.0)),
    "wake: NaN": lambda stage, claim: stage.store.wake("t", ExternalEvent("e", math.nan)),
    # -- the rest
    "sweep: limit 0": lambda stage, claim: stage.store.requeue_stale(limit=0),
    "timers: limit 0": lambda stage, claim: stage.store.fire_due_timers(limit=0),
    "fail: bound 0": lambda stage, claim: stage.store.fail(claim, "x", attempts_max=0),
    "read: limit 0": lambda stage, claim: stage.store.read("t", limit=0),
    "read: limit too big": lambda stage, claim: stage.store.read("t", limit=limits.PAGE_ENTRIES_MAX + 1),
    "read: after a negative seq": lambda stage, claim: stage.store.read("t", -1),
    "read: after 2**63": lambda stage, claim: stage.store.read("t", 2**63),
    "tasks: limit 0": lambda stage, claim: stage.store.tasks(limit=0),
    "media type: nul": lambda stage, claim: stage.store.put_content(b"", "a\x00"),
    "content put: no bytes": lambda stage, claim: stage.store.put_content(cast(Any, "text")),
    "snapshot: version empty": lambda stage, claim: stage.store.put_snapshot("t", Snapshot(1, "", b"")),
    "snapshot: version nul": lambda stage, claim: stage.store.put_snapshot("t", Snapshot(1, "\x00", b"")),
    "snapshot: negative seq": lambda stage, claim: stage.store.put_snapshot("t", Snapshot(-1, "v", b"")),
    "snapshot: seq 2**63": lambda stage, claim: stage.store.put_snapshot("t", Snapshot(2**63, "v", b"")),
}

UNKNOWN: Final[dict[str, Attempt]] = {
    "read": lambda stage, claim: stage.store.read("nobody"),
    "task": lambda stage, claim: stage.store.task("nobody"),
    "post": _post(A_MESSAGE, id="nobody"),
    "post to a child that was never born": _post(A_MESSAGE, id="t.9-9.9"),
    "wake": lambda stage, claim: stage.store.wake("nobody", A_MESSAGE),
    "append": lambda stage, claim: stage.store.append(replace(claim, task_id="nobody"), 1, Commit()),
    "release": lambda stage, claim: stage.store.release(replace(claim, task_id="nobody")),
    "resume": lambda stage, claim: stage.store.resume(replace(claim, task_id="nobody")),
    "fail": lambda stage, claim: stage.store.fail(replace(claim, task_id="nobody"), "x"),
    "put_snapshot": lambda stage, claim: stage.store.put_snapshot("nobody", Snapshot(1, "v", b"")),
    "get_snapshot": lambda stage, claim: stage.store.get_snapshot("nobody", "v"),
}


class BadInputContract(ContractTests):
    @pytest.mark.parametrize("case", list(REFUSED))
    def test_bad_input_is_refused_before_any_effect(self, stage: Stage, case: str) -> None:
        """By name, with the field in it, and no store has another opinion."""
        claim = stage.running()
        stage.create("waiting for a claim")

        with stage.nothing_changes(), pytest.raises(BadInput) as refused:
            REFUSED[case](stage, claim)
        assert refused.value.field
        assert len(str(refused.value)) < 2_000

    @pytest.mark.parametrize("case", list(UNKNOWN))
    def test_a_task_that_does_not_exist_is_named(self, stage: Stage, case: str) -> None:
        claim = stage.running()

        with stage.nothing_changes(), pytest.raises(UnknownTask):
            UNKNOWN[case](stage, claim)

    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_a_row_filter_of_any_text_finds_or_refuses_and_never_breaks(self, stage: Stage, name: str) -> None:
        stage.running()
        value = NAMES[name]

        for ask in (
            lambda: stage.store.tasks(queue=value),
            lambda: stage.store.tasks(token=value),
            lambda: stage.store.get_snapshot("t", value),
        ):
            with contextlib.suppress(BadInput):
                assert ask() in ((), None)

    def test_what_is_just_within_the_limits_is_accepted(self, stage: Stage) -> None:
        """https://github.com/temporalio/features/issues/487"""
        claim = stage.running()
        room = limits.BODY_BYTES_MAX - 200
        deep = nested(limits.JSON_DEPTH_MAX - 10)
        call = ToolCall("2-0", "t", {"deep": deep, "big": 2**63 - 1})

        stage.append(claim, ToolFinished("2-0", "x" * room), ModelReplied("", (call,), "tool_use"))
        stage.store.post("t", ExternalEvent("e" * 490, deep), key="k" * limits.KEY_CHARS_MAX)

        assert stage.events()[1:] == [ToolFinished("2-0", "x" * room), ModelReplied("", (call,), "tool_use")]
        assert stage.items() == [ExternalEvent("e" * 490, deep)]

    def test_the_longest_id_and_key_are_stored_and_found_again(self, stage: Stage) -> None:
        """In bytes: an index entry has to hold both, the mark of a derived key included."""
        id, key = FOUR_BYTES * (limits.NAME_BYTES_MAX // 4), FOUR_BYTES * (limits.KEY_BYTES_MAX // 4)
        event = ExternalEvent(FOUR_BYTES * (limits.KEY_BYTES_MAX // 4 - 2))
        stage.store.create(NewTask(id, "agent", "goal"))

        first = stage.store.post(id, A_MESSAGE, key)
        again = stage.store.post(id, A_MESSAGE, key)
        woken = stage.store.wake(id, event)

        assert (first.outcome, again.outcome, woken.outcome) == ("stored", "repeat", "stored")
        assert [item.item for item in stage.store.read(id).unread] == [A_MESSAGE, event]

    def test_a_refused_value_is_named_with_its_path(self, stage: Stage) -> None:
        """https://github.com/encode/django-rest-framework/issues/5235"""
        claim = stage.running()
        call = ToolCall("2-0", "t", {"rows": [0, {"mean": math.nan}]})

        with pytest.raises(BadInput) as refused:
            stage.append(claim, ModelReplied("", (call,), "tool_use"))

        assert "input.rows[1].mean" in refused.value.field
