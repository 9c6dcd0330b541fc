"""Agents for the tests of crash testing: sound ones, and ones with a bug that only a crash shows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from noeta.core.events import TaskWoken
from noeta.core.model import ModelReply
from noeta.core.runner import Engine
from noeta.core.tool import ToolContext, ToolFlags, ToolResult
from noeta.core.wake import HumanResponseReceived
from noeta.runtime.app import WorkerApp
from noeta.runtime.threads import ThreadWorld
from noeta.testing.crash import CrashApp, Outcome, Replies, Say, Task, asks

ORDER = Task("order-1", "buy one book")
PAYS = Replies(asks("pay", {"cents": 500}), "done")


class Bank:
    """The outside world of one execution."""

    def __init__(self) -> None:
        self.keys: list[str] = []


class Pay:
    """Pays, and does not care whether it has paid already."""

    name = "pay"

    def __init__(self, bank: Bank, *, retry_safe: bool) -> None:
        self.bank = bank
        self.flags = ToolFlags(retry_safe=retry_safe)

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        self.bank.keys.append(ctx.idempotency_key)
        return ToolResult("paid")


class PayAndLookUp(Pay):
    """Can tell whether it has paid."""

    def recover(self, input: Any, ctx: ToolContext) -> ToolResult | None:
        return ToolResult("paid") if ctx.idempotency_key in self.bank.keys else None


class PayOnce(Pay):
    """Its bank refuses a second payment under the same key."""

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        if ctx.idempotency_key not in self.bank.keys:
            self.bank.keys.append(ctx.idempotency_key)
        return ToolResult("paid")


class PayAndPost(Pay):
    """Two effects in one call, and a point between them: a crash there leaves one without the other."""

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        self.bank.keys.append("payment")
        ctx.point("between")
        self.bank.keys.append("parcel")
        return ToolResult("paid and posted")


class Cleans(Pay):
    """Wants to pay in a ``finally``, through the context: the dead process is cut before it can."""

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        try:
            ctx.point("working")
        finally:
            ctx.point("cleaning")
            self.bank.keys.append(f"{ctx.idempotency_key}/{ctx.start}")
        return ToolResult("paid")


def shop(make_tool: Callable[[Bank], Pay]) -> CrashApp:
    bank = Bank()

    def check(outcome: Outcome) -> None:
        assert outcome.completed("order-1")
        if outcome.is_certain("order-1"):
            assert len(bank.keys) == 1

    return CrashApp(
        app=lambda: Engine(PAYS, tools={"pay": make_tool(bank)}), tasks=[ORDER], check=check, effects=lambda: bank.keys
    )


def pays_twice() -> CrashApp:
    """Not safe to repeat, and says that it is."""
    return shop(lambda bank: Pay(bank, retry_safe=True))


def pays_twice_unnoticed() -> CrashApp:
    """The same, and only ``effects`` look at it."""
    made = pays_twice()
    return CrashApp(app=made.app, tasks=made.tasks, effects=made.effects)


def looks_up_and_repeats() -> CrashApp:
    """Between a look-up that finds nothing and a new run, a frozen worker can still have its effect."""
    return shop(lambda bank: PayAndLookUp(bank, retry_safe=True))


def looks_up() -> CrashApp:
    return shop(lambda bank: PayAndLookUp(bank, retry_safe=False))


def does_not_promise() -> CrashApp:
    return shop(lambda bank: Pay(bank, retry_safe=False))


def pays_once() -> CrashApp:
    """Exactly one payment, whatever happens: nothing here asks whether the outcome is certain."""
    made = shop(lambda bank: PayOnce(bank, retry_safe=True))
    effects = made.effects
    assert effects is not None

    def check(outcome: Outcome) -> None:
        assert len(list(effects())) == 1
        assert outcome.is_certain("order-1")

    return CrashApp(app=made.app, tasks=made.tasks, check=check, effects=effects)


def half_done() -> CrashApp:
    """Told as unknown, and never noticed by anybody."""
    bank = Bank()

    def check(outcome: Outcome) -> None:
        assert len(bank.keys) in (0, 2), f"{bank.keys} alone"

    return CrashApp(
        app=lambda: Engine(PAYS, tools={"pay": PayAndPost(bank, retry_safe=False)}), tasks=[ORDER], check=check
    )


def cleans_up() -> CrashApp:
    return shop(lambda bank: Cleans(bank, retry_safe=False))


def talks() -> CrashApp:
    """Two turns of one task: it asks, and pays once a person agrees. A WorkerApp with an engine for each task."""
    bank = Bank()
    engine = Engine(Replies("Shall I?", asks("pay"), "done"), tools={"pay": PayOnce(bank, retry_safe=True)})

    def check(outcome: Outcome) -> None:
        told = outcome["order-1"]
        assert told.status == "waiting"
        assert told.answers == ("Shall I?", "done")
        assert len(bank.keys) == 1
        said = [entry.event.event for entry in told.log if isinstance(entry.event, TaskWoken)]
        assert said == [HumanResponseReceived(text="yes, please")]

    return CrashApp(
        app=lambda: WorkerApp(lambda task: engine),
        tasks=[Task("order-1", "buy one book", interactive=True)],
        messages=[Say("order-1", "yes, please")],
        check=check,
    )


def wrong_without_a_crash() -> CrashApp:
    return CrashApp(app=lambda: Engine(Replies("done")), tasks=[ORDER], check=lambda outcome: outcome["order-2"])


class Exits(Pay):
    """Believes that it is a script."""

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        raise SystemExit(0)


def exits() -> CrashApp:
    return CrashApp(app=lambda: Engine(PAYS, tools={"pay": Exits(Bank(), retry_safe=False)}), tasks=[ORDER])


def fails_in_peace() -> CrashApp:
    """Its model has one reply too few, and nobody checks what came of it."""
    return CrashApp(
        app=lambda: Engine(Replies(asks("pay")), tools={"pay": PayOnce(Bank(), retry_safe=True)}), tasks=[ORDER]
    )


_numbers = itertools.count()


def other_every_time() -> CrashApp:
    """What it does depends on how often it was made."""
    number = next(_numbers)
    asked: tuple[ModelReply, ...] = (asks("pay"),) * number
    return CrashApp(
        app=lambda: Engine(Replies(*asked, "done"), tools={"pay": PayOnce(Bank(), retry_safe=True)}), tasks=[ORDER]
    )


def raises() -> CrashApp:
    raise RuntimeError("no bank today")


def returns_a_word() -> Any:
    return "bank"


def has_no_tasks() -> CrashApp:
    return CrashApp(app=lambda: Engine(Replies("done")), tasks=[])


def app_returns_a_word() -> CrashApp:
    broken: Any = lambda: "engine"  # noqa: E731
    return CrashApp(app=broken, tasks=[ORDER])


def app_raises() -> CrashApp:
    return CrashApp(app=lambda: Engine(Replies()), tasks=[ORDER])


def brings_a_world() -> CrashApp:
    engine = Engine(Replies("done"))
    return CrashApp(app=lambda: WorkerApp(lambda task: engine, world=ThreadWorld()), tasks=[ORDER])


def tool_without_flags() -> CrashApp:
    class Bare:
        name = "pay"

    bare: Any = Bare()
    return CrashApp(app=lambda: Engine(PAYS, tools={"pay": bare}), tasks=[ORDER])
