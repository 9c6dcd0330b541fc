"""Whether what is said to a task brings all that its script waits for, so that the end can be foretold.

A client says its messages in order, each when it is due (``workload.is_due``). This walks through the waits of the
script as such a client would meet them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from noeta.core.texts import APPROVE
from scripted_model.script import ASKS_A_PERSON, AwaitEvent, Call, Question, Say, Script, Tools
from scripted_model.workload import ScheduledMessage


def check_messages(script: Script, messages: Sequence[ScheduledMessage]) -> None:
    """Refuse messages (all of this task, in order) that leave it waiting, or whose effect nobody could foretell.

    Raises:
        ValueError: names the task and what is missing.
    """
    started = [message.turn for message in messages if message.kind == "turn"]
    if started != list(range(2, len(script.turns) + 1)):
        raise ValueError(f"{script.task}: one message, in order, starts each turn after the first, found {started}")
    _check_closes(script, messages)
    left = deque(message for message in messages if message.kind != "note")
    brought: set[str] = set()
    carried: list[Call] = []
    for number, _ in enumerate(script.turns, 1):
        waits = [*carried, *_waits_of(script, number)]
        carried = []
        for wait in waits:
            if not _bring(script.task, wait, left, brought):
                return
        while left and left[0].kind != "turn":
            message = left.popleft()
            if message.kind == "cancel":
                return
            if message.kind == "close":
                # It may have come before any of these, which are waited for in the next turn then.
                carried = waits
        if left:
            left.popleft()


def _waits_of(script: Script, number: int) -> list[Call]:
    """The calls of a turn that wait for what a client may bring, in order."""
    calls = [call for step in script.turns[number - 1].steps if isinstance(step, Tools) for call in step.calls]
    return [call for call in calls if isinstance(call.asked, Question | AwaitEvent) or _is_decided(call)]


def _is_decided(call: Call) -> bool:
    return call.arguments.gate in ASKS_A_PERSON


def _bring(task: str, call: Call, left: deque[ScheduledMessage], brought: set[str]) -> bool:
    """Say what ends this wait; False: the task is cancelled first, or closed, and the rest is of no interest."""
    if _is_decided(call):
        return _decide(task, call, left, brought)
    wait = call.asked
    assert isinstance(wait, Question | AwaitEvent)
    if wait.timeout_seconds is not None:
        # It ends by itself; its answer may find it, and is used up then.
        if isinstance(wait, Question) and left and left[0].kind == "answer":
            left.popleft()
        return True
    while not (isinstance(wait, AwaitEvent) and wait.event_kind in brought):
        if not left or left[0].kind == "turn":
            what = "answer" if isinstance(wait, Question) else f"event {wait.event_kind!r}"
            raise ValueError(f"{task}: nobody brings the {what} that is waited for, in the order of the waits")
        if left[0].kind == "close":
            return True
        message = left.popleft()
        if message.kind == "cancel":
            return False
        if message.kind == "event":
            brought.add(message.event_kind)
        if message.kind == "answer" and isinstance(wait, Question):
            return True
    return True


def _decide(task: str, call: Call, left: deque[ScheduledMessage], brought: set[str]) -> bool:
    """Approve this call, or refuse it, as its script has it."""
    while left and left[0].kind == "event":
        brought.add(left.popleft().event_kind)
    if left and left[0].kind == "cancel":
        return False
    if left and left[0].kind == "close":
        return True
    if not left or left[0].kind != "decision":
        raise ValueError(f"{task}: nobody decides about {call.arguments.tag}, in the order of the waits")
    decision = left.popleft()
    if (decision.text == APPROVE) != (call.arguments.gate != "refuse"):
        raise ValueError(f"{decision.key}: the script of {call.arguments.tag} says {call.arguments.gate!r}")
    return True


def _check_closes(script: Script, messages: Sequence[ScheduledMessage]) -> None:
    for place, message in enumerate(messages):
        if message.kind != "close":
            continue
        if not script.interactive:
            raise ValueError(f"{message.key}: only the turn of an interactive task can be closed and go on")
        if not isinstance(script.turns[message.turn - 1].steps[-1], Say):
            raise ValueError(f"{message.key}: a turn that fails cannot be closed, or nobody knows whether it fails")
        following = [later.turn for later in messages[place + 1 :] if later.kind == "turn"]
        if following[:1] != [message.turn + 1]:
            raise ValueError(f"{message.key}: the message of turn {message.turn + 1} must follow, to go on with it")
