"""A small language for histories: one line tells what a run left behind.

``H("1/0 created; 2/1 called; row running/1 w1 last=2; w1:append 2-2/1 ok")`` is evidence of task ``t``. Each
piece happens one second after the one before it, unless it says ``at=<seconds>``. Pieces:

* an entry: ``<seq>/<epoch> <word> …`` with the words of ``_event``; its body hash is ``h<seq>``, or ``hash=x``;
* an attempt: ``<who>:<verb> [<first>-<last>]/<epoch> <answer> …``; its hashes are those of its seqs;
* a row: ``row <status>/<epoch> [<worker>] last=<seq> …``; the final one: ``end …``, with ``unread=<n>:<item>``;
* ``effect <call>#<start> <tool> [<worker>]``, ``sent <key> <number> <outcome>``, ``script <outcome> …``,
  ``fault <kind> <process> <task>@<epoch>,…``, and ``on <task>``, which names the task of what follows.

Items: ``human[:handle]``, ``timer:<seconds>``, ``event:<kind>``, ``child:<id>[/<group>]``, ``group:<id>/<members>``,
``cancel``. ``-`` stands for None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from invariants import (
    Answer,
    Attempt,
    FaultSeen,
    FinalRow,
    Foretold,
    Held,
    HeldInMemory,
    JournalLine,
    LogEntry,
    Outcome,
    RunFacts,
    Sample,
    Sent,
    ToolKind,
    Verb,
    gather,
)
from noeta.core import ids, texts
from noeta.core import wake as waking
from noeta.core.events import (
    Event,
    MessageTaken,
    ModelCalled,
    ModelReplied,
    StepAttemptAbandoned,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnFailed,
)
from noeta.core.store import UnreadItem
from noeta.core.task import Status, TaskRow

SECOND = ids.MICROS_PER_SECOND

TOOLS = {
    "pay": ToolKind("pay"),
    "read": ToolKind("read", retry_safe=True),
    "book": ToolKind("book"),
    "mute": ToolKind("mute", journals=False),
    "breaks": ToolKind("breaks", journals_errors=True),
}
"""``pay`` and ``book`` did not opt in; ``read`` is retry_safe; ``mute`` journals nothing."""


def H(text: str, **run: Any) -> HeldInMemory:  # noqa: N802 - one letter, as in Elle's and etcd's histories
    """The evidence that this history tells. Keyword arguments are those of ``RunFacts``."""
    history = _History()
    for number, piece in enumerate((one.strip() for one in re.split(r"[;\n]", text) if one.strip()), start=1):
        history.add(piece, number * SECOND)
    facts = RunFacts(faults=tuple(history.faults), **{"tools": TOOLS, **run})
    return gather(
        facts,
        log=history.log,
        attempts=history.attempts,
        samples=history.samples,
        finals=history.finals,
        journal=history.journal,
        sent=history.sent,
        foretold=history.foretold,
    )


class _Words:
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


class _History:
    def __init__(self) -> None:
        self.task = "t"
        self.log: list[LogEntry] = []
        self.attempts: list[Attempt] = []
        self.samples: list[Sample] = []
        self.finals: list[FinalRow] = []
        self.journal: list[JournalLine] = []
        self.sent: list[Sent] = []
        self.foretold: list[Foretold] = []
        self.faults: list[FaultSeen] = []

    def add(self, piece: str, at: int) -> None:
        head, *rest = piece.split()
        words = _Words(rest)
        at = words.seconds("at", at) or 0
        if re.fullmatch(r"\d+/\d+", head):
            return self._entry(head, words, at)
        if ":" in head:
            return self._attempt(head, words, at)
        return self._pieces()[head](words, at)

    def _pieces(self) -> Mapping[str, Callable[[_Words, int], None]]:
        return {
            "row": lambda words, at: self.samples.append(self._final(words, at).as_sample()),
            "end": lambda words, at: self.finals.append(self._final(words, at)),
            "effect": self._effect,
            "sent": self._sent,
            "script": self._script,
            "fault": self._fault,
            "on": lambda words, at: setattr(self, "task", words.take()),
        }

    def _entry(self, head: str, words: _Words, at: int) -> None:
        seq, epoch = map(int, head.split("/"))
        body = words.named.get("hash", f"h{seq}")
        self.log.append(LogEntry(self.task, seq, epoch, at, _event(seq, words.take(), words), body))

    def _attempt(self, head: str, words: _Words, at: int) -> None:
        worker, verb = head.split(":")
        span, _, under = words.take("/-").partition("/")
        first, last = map(int, span.split("-")) if span else (1, 0)
        epoch = None if under in ("", "-") else int(under)
        answer = words.take("ok")
        hashes = words.several("hash") or tuple(f"h{seq}" for seq in range(first, last + 1))
        self.attempts.append(
            Attempt(
                id=f"op{len(self.attempts) + 1}",
                process=f"{worker}#1",
                worker=worker,
                verb=Verb(verb),
                task=self.task,
                sent_at=at,
                epoch=epoch,
                token=words.named.get("token", None if epoch is None else f"{worker}.{epoch}"),
                expected_seq=words.number("expects", first - 1),
                hashes=hashes,
                may_hold_back=words.flag("back"),
                lease_until=words.seconds("lease"),
                answered_at=None if answer == "never" else at,
                answer=None if answer == "never" else Answer(answer),
                answer_seq=words.number("last"),
            )
        )

    def _final(self, words: _Words, at: int) -> FinalRow:
        status, _, epoch = words.take().partition("/")
        kept = words.flag("kept")
        worker = words.take("-")
        owned = worker != "-"
        stamped = words.several("stamped")
        wake_on = words.named.get("on")
        count = words.named.get("unread", "")
        row = TaskRow(
            id=self.task,
            queue=words.named.get("queue", "default"),
            status=Status(status),
            kept=kept,
            epoch=int(epoch),
            worker=worker if owned else None,
            token=words.named.get("token", f"{worker}.{epoch}") if owned else None,
            lease_until=words.seconds("lease", at + SECOND if owned else None),
            ready_at=words.seconds("ready", at if status == "pending" else None),
            wake_on=None if wake_on is None else _condition(wake_on),
            wake_key=None,
            wake_missing=0,
            inbox_seq=words.number("inbox", 0) or 0,
            last_seq=words.number("last", 0) or 0,
            takeovers=words.number("takeovers", 0) or 0,
            fail_attempts=0,
            parent=None,
            group=words.named.get("group"),
            created_at=0,
        )
        return FinalRow(
            at,
            row,
            tuple(_unread(one, at) for one in words.several("unread"))
            if ":" in count or not count
            else _anything(int(count)),
            tuple(map(int, stamped)) if "stamped" in words.named else None,
            words.number("seen"),
        )

    def _effect(self, words: _Words, at: int) -> None:
        call, _, start = words.take().partition("#")
        tool, worker = words.take(), words.take("w1")
        token = words.named.get("token", f"{self.task}:{call}:{start}")
        self.journal.append(JournalLine(token, self.task, call, tool, int(start), worker, 1, at, words.take("effect")))

    def _sent(self, words: _Words, at: int) -> None:
        key, number = words.take(), words.take("-")
        outcome = words.take("stored")
        self.sent.append(
            Sent(self.task, None if key == "-" else key, None if number == "-" else int(number), outcome, at)
        )

    def _script(self, words: _Words, at: int) -> None:
        calls = dict(one.split(":") for one in words.several("calls"))
        given: dict[str, Any] = (
            {"excusable": frozenset(words.several("excusable"))} if "excusable" in words.named else {}
        )
        self.foretold.append(
            Foretold(
                self.task,
                Outcome(words.take()),
                reason=words.named.get("reason"),
                answer=words.named.get("answer"),
                failures=words.several("failures"),
                turns=words.number("turns"),
                calls={tool: int(count) for tool, count in calls.items()} if "calls" in words.named else None,
                messages=words.several("messages"),
                bounds=frozenset(words.several("bounds")),
                **given,
            )
        )

    def _fault(self, words: _Words, at: int) -> None:
        kind, process = words.take(), words.take()
        held = tuple(Held(one.split("@")[0], int(one.split("@")[1])) for one in words.take("").split(",") if one)
        self.faults.append(FaultSeen(at, kind, process, at + SECOND, (process,), held))


def _event(seq: int, word: str, words: _Words) -> Event:
    match word:
        case "created":
            return TaskCreated("agent", "goal", interactive=words.flag("interactive"))
        case "called":
            return ModelCalled(words.take("r"), words.number("attempt", 1) or 1, words.named.get("engine", "e"))
        case "replied":
            tools = [tool for tool in words.take("").split(",") if tool]
            calls = tuple(ToolCall(ids.call_id(seq, i), tool, {}) for i, tool in enumerate(tools))
            return ModelReplied(words.named.get("say", ""), calls, "tool_use" if calls else "end")
        case "started":
            return ToolStarted(words.take(), int(words.take("1")))
        case "finished":
            is_error = words.flag("error")
            call, source = words.take(), words.take("ran")
            output = words.named.get("output", texts.OUTCOME_UNKNOWN if source == "unknown" else "done")
            return ToolFinished(call, output, is_error or source == "unknown", source)
        case "sealed":
            return StepAttemptAbandoned(int(words.take("1")), "auto_redrive")
        case "taken":
            return MessageTaken(int(words.take()), waking.HumanResponseReceived())
        case "woken":
            numbers = tuple(int(number) for number in words.take().split(",") if number != "-")
            return TaskWoken(numbers, _item(words.take()))
        case "suspended":
            return TaskSuspended(_condition(words.take("human")), words.named.get("answer"))
        case "turnfailed":
            reason = _blank(words.take())
            provider = words.flag("provider") or reason != texts.LLM_ERROR
            return TurnFailed(reason, "the provider is down" if provider else texts.MODEL_CALL_INTERRUPTED)
        case "completed":
            return TaskCompleted(words.take("done"))
        case "failed":
            return TaskFailed(_blank(words.take()))
        case "cancelled":
            return TaskCancelled()
        case _:
            raise AssertionError(f"no such word: {word}")


def _blank(word: str) -> str:
    return "" if word == "-" else word


def _item(text: str) -> waking.Item:
    return waking.ControlReceived() if text == "cancel" else _condition(text)


def _condition(text: str) -> waking.WakeCondition:
    kind, _, identity = text.partition(":")
    head, _, tail = identity.partition("/")
    match kind:
        case "human":
            return waking.HumanResponseReceived(identity or waking.NEXT_GOAL)
        case "timer":
            return waking.TimerFired(float(identity))
        case "event":
            return waking.ExternalEvent(identity)
        case "child":
            return waking.SubtaskCompleted(head, group_id=tail or None)
        case "group":
            return waking.SubtaskGroupCompleted(head, int(tail or 0))
        case _:
            raise AssertionError(f"no such item: {text}")


def _unread(text: str, at: int) -> UnreadItem:
    number, _, rest = text.partition(":")
    item, _, age = rest.partition("~")
    return UnreadItem(int(number), None, _item(item), "", at - SECOND * int(age or 0))


def _anything(count: int) -> tuple[UnreadItem, ...]:
    return tuple(UnreadItem(n, None, waking.ExternalEvent("any"), "", 0) for n in range(1, count + 1))
