"""What a user may say of an agent, and how a mistake in it is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noeta.core.errors import BadInput
from noeta.core.model import ModelReply, ModelRequest, ModelSaid, ProviderError, UserSaid
from noeta.core.runner import Engine
from noeta.testing.crash_app import CrashApp, Say, Task
from noeta.testing.replies import Replies, asks

TALK = Task("t", "goal", interactive=True)
WORD: Any = "word"
NUMBER: Any = 7


def engine() -> Engine:
    return Engine(Replies("done"))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Task("a.b", "goal"), "task_id: must not contain '.'"),
        (lambda: Task("", "goal"), "task_id: must not be empty"),
        (lambda: Task("t", NUMBER), "goal: expected text, found int"),
        (lambda: Task("t", "goal", agent=""), "agent: must not be empty"),
        (lambda: Task("t", "goal", delay_seconds=-1.0), "delay_seconds: expected seconds from 0"),
        (lambda: Task("t", "goal", delay_seconds=float("nan")), "delay_seconds: expected seconds from 0"),
        (lambda: Say("t", NUMBER), "text: expected text, found int"),
        (lambda: Say("t", "x", when=WORD), "when: expected 'waits' or 'runs', found 'word'"),
        (lambda: Say("t", "x", delay_seconds=float("inf")), "delay_seconds: expected seconds from 0"),
        (lambda: CrashApp(WORD, [TALK]), "CrashApp.app: expected a function, found str"),
        (lambda: CrashApp(engine, [TALK], check=WORD), "CrashApp.check: expected a function, found str"),
        (lambda: CrashApp(engine, [TALK], effects=WORD), "CrashApp.effects: expected a function, found str"),
        (lambda: CrashApp(engine, []), "CrashApp.tasks: expected at least one Task"),
        (lambda: CrashApp(engine, WORD), "CrashApp.tasks: expected a list of Task, found str"),
        (lambda: CrashApp(engine, [WORD]), "CrashApp.tasks: expected Task, found str"),
        (lambda: CrashApp(engine, [TALK, TALK]), "CrashApp.tasks: expected ids that stand once"),
        (lambda: CrashApp(engine, [TALK], [WORD]), "CrashApp.messages: expected Say, found str"),
        (lambda: CrashApp(engine, [TALK], [Say("u", "x")]), "CrashApp.messages: expected one of t, found 'u'"),
        (lambda: CrashApp(engine, [Task("t", "g")], [Say("t", "x")]), "CrashApp.messages: 't' is not interactive"),
        (lambda: Replies(), "replies: expected at least one"),
        (lambda: Replies(NUMBER), "replies: expected text or asks"),
    ],
)
def test_a_mistake_is_named_by_its_field(make: Callable[[], object], told: str) -> None:
    with pytest.raises(BadInput) as refused:
        make()

    assert f"{refused.value}".startswith(told)


def test_what_is_right_is_taken() -> None:
    made = CrashApp(engine, (TALK, Task("u", "goal")), (Say("t", "yes"), Say("u", "hurry", when="runs")))

    assert [task.id for task in made.tasks] == ["t", "u"]


def test_replies_are_a_function_of_the_request() -> None:
    model = Replies(asks("pay", {"cents": 5}), "done")
    goal = UserSaid("goal")

    def reply(*said: UserSaid | ModelSaid) -> ModelReply:
        return model.call(ModelRequest("main", "", (), said), attempt=1)

    assert reply(goal) == reply(goal)
    assert reply(goal).calls[0].tool == "pay"
    assert reply(goal, ModelSaid(""), UserSaid("x")).text == "done"
    with pytest.raises(ProviderError) as refused:
        reply(goal, ModelSaid(""), ModelSaid("done"))
    assert not refused.value.retryable
