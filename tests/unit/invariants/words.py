"""The words of the little language of histories: events, items and conditions."""

from __future__ import annotations

from msgspec import UNSET

from invariants.kinship import ORDER, ORDER_KEY
from noeta.core import ids, texts
from noeta.core import wake as waking
from noeta.core.events import (
    ApprovalAsked,
    CronFired,
    CronRemoved,
    CronSet,
    Event,
    JobEnded,
    JobLost,
    JobStarted,
    MessageTaken,
    ModelCalled,
    ModelReplied,
    NoticeGiven,
    StepAttemptAbandoned,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolCall,
    ToolFinished,
    ToolParked,
    ToolStarted,
    TurnFailed,
)
from noeta.core.store import UnreadItem

REASONS = {"parent-ended": texts.PARENT_ENDED, "given-up": texts.WAIT_GIVEN_UP}
"""Reasons that hold spaces, by one word."""


class Words:
    """The words of a piece: plain ones in order, and ``name=value``."""

    def __init__(self, words: list[str]) -> None:
        self.plain = [word for word in words if "=" not in word]
        self.named = dict(word.split("=", 1) for word in words if "=" in word)

    def take(self, default: str | None = None) -> str:
        if self.plain:
            return self.plain.pop(0)
        assert default is not None, "a word is missing"
        return default

    def flag(self, word: str) -> bool:
        if word in self.plain:
            self.plain.remove(word)
            return True
        return False

    def number(self, name: str, default: int | None = None) -> int | None:
        value = self.named.get(name)
        return default if value is None else None if value == "-" else int(value)

    def seconds(self, name: str, default: int | None = None) -> int | None:
        value = self.named.get(name)
        return default if value is None else None if value == "-" else ids.micros(float(value))

    def several(self, name: str) -> tuple[str, ...]:
        return tuple(part for part in self.named.get(name, "").split(",") if part)


def event(seq: int, word: str, words: Words) -> Event:
    """The event that these words tell."""
    match word:
        case "created":
            parent, group, root = (words.named.get(name) for name in ("parent", "group", "root"))
            interactive = words.flag("interactive")
            return TaskCreated("agent", "goal", interactive, parent, group, root, words.number("depth", 0) or 0)
        case "called":
            return ModelCalled(words.take("r"), words.number("attempt", 1) or 1, words.named.get("engine", "e"))
        case "replied":
            tools = [tool for tool in words.take("").split(",") if tool]
            given = dict(one.split(":") for one in words.several("input"))
            asked = {name: float(value) for name, value in given.items()}
            calls = tuple(ToolCall(ids.call_id(seq, i), tool, asked) for i, tool in enumerate(tools))
            return ModelReplied(words.named.get("say", ""), calls, "tool_use" if calls else "end")
        case "started":
            return ToolStarted(words.take(), int(words.take("1")), words.named.get("with", UNSET))
        case "asked":
            call, wake_on = words.take(), condition(words.take())
            assert isinstance(wake_on, waking.HumanResponseReceived)
            return ApprovalAsked(call, wake_on, "may it?", words.named.get("with", UNSET))
        case "finished":
            is_error = words.flag("error")
            call, source = words.take(), words.take("ran")
            output = words.named.get("output", texts.OUTCOME_UNKNOWN if source == "unknown" else "done")
            is_error = is_error or source in ("unknown", "denied")
            return ToolFinished(call, output, is_error, source, words.several("children"))
        case "parked":
            call = words.take()
            return ToolParked(call, condition(words.take()), words.several("children"))
        case "sealed":
            return StepAttemptAbandoned(int(words.take("1")), words.take("auto_redrive"))
        case "noticed":
            return NoticeGiven(_blank(words.take("parked")))
        case "job":
            return JobStarted(words.take(), "sleep 9")
        case "jobended":
            return JobEnded(words.take(), words.take("exited"), exit_code=0)
        case "joblost":
            return JobLost(words.take())
        case "cronset":
            table = words.take().replace("_", " ")
            return CronSet(words.take(), table, words.take("UTC"), "look", float(words.named["since"]))
        case "cronremoved":
            return CronRemoved(words.take())
        case "cronfired":
            return CronFired(words.take(), float(words.take()), words.number("missed", 0) or 0)
        case "taken":
            return MessageTaken(int(words.take()), item(words.take("human")))
        case "woken":
            numbers = tuple(int(number) for number in words.take().split(",") if number != "-")
            return TaskWoken(numbers, item(words.take()))
        case "suspended":
            wake_on = condition(words.take("human"))
            return TaskSuspended(wake_on, words.named.get("answer"), words.named.get("reason", ""))
        case "turnfailed":
            reason = _blank(words.take())
            provider = words.flag("provider") or reason != texts.LLM_ERROR
            return TurnFailed(reason, "the provider is down" if provider else texts.MODEL_CALL_INTERRUPTED)
        case "completed":
            return TaskCompleted(words.take("done"))
        case "failed":
            return TaskFailed(_blank(words.take()))
        case "cancelled":
            reason = words.named.get("reason", "")
            return TaskCancelled(REASONS.get(reason, reason))
        case _:
            raise AssertionError(f"no such word: {word}")


def _blank(word: str) -> str:
    return "" if word == "-" else word


def item(text: str) -> waking.Item:
    """An item: a condition, with what it brings behind ``!``."""
    head, *more = text.split("!")
    kind, _, identity = head.partition(":")
    match kind:
        case "cancel" | "close":
            return waking.ControlReceived(kind)
        case "order":
            return ORDER
        case "told":
            status, output = _result(more)
            words = texts.CHILD_ENDED.format(child=identity, status=status, output=output)
            return waking.HumanResponseReceived(text=words, sender=identity)
        case "report":
            words = texts.HANDBACK.format(child=identity, report="half way")
            return waking.HumanResponseReceived(text=words, sender=identity)
        case "child":
            child, _, group = identity.partition("/")
            status, output = _result(more)
            return waking.SubtaskCompleted(child, status, output, group or None)
        case "group":
            group, _, members = identity.partition("/")
            results = [item(f"child:{child}/{group}") for child in "".join(more).split("+") if child]
            assert all(isinstance(one, waking.SubtaskCompleted) for one in results)
            return waking.SubtaskGroupCompleted(group, int(members or 0), tuple(results))  # type: ignore[arg-type]
        case "human" if more:
            handle, _, limit = identity.partition("@")
            return waking.HumanResponseReceived(
                handle or waking.NEXT_GOAL, more[0], timeout_at=float(limit) if limit else None
            )
        case _:
            return condition(head)


def _result(more: list[str]) -> tuple[str, str]:
    status, output = (*more, *("completed", "done")[len(more) :])
    return status, output.replace("%20", " ")


def condition(text: str) -> waking.WakeCondition:
    """What a task waits for; ``@<seconds>``: how long."""
    text, _, limit = text.partition("@")
    kind, _, identity = text.partition(":")
    head, _, tail = identity.partition("/")
    timeout_at = float(limit) if limit else None
    match kind:
        case "human":
            return waking.HumanResponseReceived(identity or waking.NEXT_GOAL, timeout_at=timeout_at)
        case "timer":
            return waking.TimerFired(float(identity))
        case "event":
            return waking.ExternalEvent(identity, timeout_at=timeout_at)
        case "child":
            return waking.SubtaskCompleted(head, group_id=tail or None)
        case "group":
            return waking.SubtaskGroupCompleted(head, int(tail or 0))
        case _:
            raise AssertionError(f"no such item: {text}")


def unread(text: str, at: int) -> UnreadItem:
    """``<number>:<item>[~<age in seconds>]``."""
    number, _, rest = text.partition(":")
    what, _, age = rest.partition("~")
    key = ORDER_KEY if what == "order" else None
    return UnreadItem(int(number), key, item(what), "", at - ids.MICROS_PER_SECOND * int(age or 0))


def anything(count: int) -> tuple[UnreadItem, ...]:
    """So many items of which nobody asks what they are."""
    return tuple(UnreadItem(n, None, waking.ExternalEvent("any"), "", 0) for n in range(1, count + 1))
