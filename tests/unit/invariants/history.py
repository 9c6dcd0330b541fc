"""A small language for histories: one line tells what a run left behind.

``H("1/0 created; 2/1 called; row running/1 w1 last=2; w1:append 2-2/1 ok")`` is evidence of task ``t``. Each
piece happens one second after the one before it, unless it says ``at=<seconds>``. Pieces:

* an entry: ``<seq>/<epoch> <word> …`` with the words of ``words.event``; its body hash is ``h<seq>``, or ``hash=x``;
* an attempt: ``<who>:<verb> [<first>-<last>]/<epoch> <answer> …``; its hashes are those of its seqs;
* a row: ``row <status>/<epoch> [<worker>] last=<seq> …``; the final one: ``end …``, with ``unread=<n>:<item>``;
* ``effect <call>#<start> <tool> [<worker>]``, ``sent <key> <number> <outcome>``, ``script <outcome> …``,
  ``line <job> [error=<seconds>]``, which a background job wrote, and ``on <task>``, which names the task of what
  follows;
* of the whole run: ``fault <kind> <process> <task>@<epoch>,…``, ``look``: somebody looks for locks of the workers'
  sessions, and ``lock <worker> <age in seconds>``: one is seen then.

In the final row ``stamped=<n>,<n>`` are items that the end stamped unread, and ``order=yes`` or ``order=no`` says
whether the order of an ended parent is among them; neither: nobody can tell.

Conditions: ``human[:handle][@<limit>]``, ``timer:<seconds>``, ``event:<kind>[@<limit>]``, ``child:<id>[/<group>]``,
``group:<id>/<members>``. Items: the same, ``cancel``, ``close``, ``order`` (the cancel of an ended parent), and with
what they bring: ``human:<handle>!<text>``, ``child:<id>!<status>!<output>`` (of ``completed``: ``done``),
``group:<id>/<members>!<child>+<child>``; ``told:<child>`` and ``report:<child>`` are what a task in the background
says. ``-`` stands for None.
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
    JobLine,
    JournalLine,
    LockSeen,
    LogEntry,
    Outcome,
    RunFacts,
    Sample,
    Sent,
    ToolKind,
    Verb,
    gather,
)
from invariants.kinship import item_hash
from noeta.core import ids
from noeta.core.task import Status, TaskRow
from noeta.core.wake import item_key
from tests.unit.invariants import words as language
from tests.unit.invariants.words import Words

SECOND = ids.MICROS_PER_SECOND

TOOLS = {
    "pay": ToolKind("pay"),
    "read": ToolKind("read", retry_safe=True),
    "book": ToolKind("book"),
    "mute": ToolKind("mute", journals=False),
    "breaks": ToolKind("breaks", journals_errors=True),
    "wait": ToolKind("wait", retry_safe=True, journals=False, timer_field="seconds"),
}
"""``pay`` and ``book`` did not opt in; ``read`` is retry_safe; ``mute`` and ``wait`` journal nothing; ``wait`` waits
for so many ``seconds``."""


def H(text: str, **run: Any) -> HeldInMemory:  # noqa: N802 - one letter, as in Elle's and etcd's histories
    """The evidence that this history tells. Keyword arguments are those of ``RunFacts``."""
    history = _History()
    for number, piece in enumerate((one.strip() for one in re.split(r"[;\n]", text) if one.strip()), start=1):
        history.add(piece, number * SECOND)
    facts = RunFacts(
        faults=tuple(history.faults), lock_looks=history.looks, locks=history.locks, **{"tools": TOOLS, **run}
    )
    return gather(
        facts,
        log=history.log,
        attempts=history.attempts,
        samples=history.samples,
        finals=history.finals,
        journal=history.journal,
        sent=history.sent,
        foretold=history.foretold,
        job_lines=history.job_lines,
    )


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
        self.job_lines: list[JobLine] = []
        self.looks: list[int] = []
        self.locks: list[LockSeen] = []

    def add(self, piece: str, at: int) -> None:
        head, *rest = piece.split()
        words = Words(rest)
        at = words.seconds("at", at) or 0
        if re.fullmatch(r"\d+/\d+", head):
            return self._entry(head, words, at)
        if ":" in head:
            return self._attempt(head, words, at)
        return self._pieces()[head](words, at)

    def _pieces(self) -> Mapping[str, Callable[[Words, int], None]]:
        return {
            "row": lambda words, at: self.samples.append(self._final(words, at).as_sample()),
            "end": lambda words, at: self.finals.append(self._final(words, at)),
            "effect": self._effect,
            "sent": self._sent,
            "script": self._script,
            "fault": self._fault,
            "line": self._line,
            "look": lambda words, at: self.looks.append(at),
            "lock": self._lock,
            "on": lambda words, at: setattr(self, "task", words.take()),
        }

    def _entry(self, head: str, words: Words, at: int) -> None:
        seq, epoch = map(int, head.split("/"))
        body = words.named.get("hash", f"h{seq}")
        self.log.append(LogEntry(self.task, seq, epoch, at, language.event(seq, words.take(), words), body))

    def _attempt(self, head: str, words: Words, at: int) -> None:
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
                token=words.named.get("token", None if epoch is None or verb == "post" else f"{worker}.{epoch}"),
                expected_seq=words.number("expects", first - 1),
                hashes=hashes,
                may_hold_back=words.flag("back"),
                lease_until=words.seconds("lease"),
                answered_at=None if answer == "never" else at,
                answer=None if answer == "never" else Answer(answer),
                answer_seq=words.number("last"),
                outcome=words.named.get("outcome"),
            )
        )

    def _final(self, words: Words, at: int) -> FinalRow:
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
            wake_on=None if wake_on is None else language.condition(wake_on),
            wake_key=None,
            wake_missing=0,
            inbox_seq=words.number("inbox", 0) or 0,
            last_seq=words.number("last", 0) or 0,
            takeovers=words.number("takeovers", 0) or 0,
            fail_attempts=0,
            parent=words.named.get("parent"),
            group=words.named.get("group"),
            created_at=0,
        )
        return FinalRow(
            at,
            row,
            tuple(language.unread(one, at) for one in words.several("unread"))
            if ":" in count or not count
            else language.anything(int(count)),
            tuple(map(int, stamped)) if "stamped" in words.named else None,
            words.number("seen"),
            {"yes": True, "no": False}.get(words.named.get("order", "")),
        )

    def _effect(self, words: Words, at: int) -> None:
        call, _, start = words.take().partition("#")
        tool, worker = words.take(), words.take("w1")
        token = words.named.get("token", f"{self.task}:{call}:{start}")
        self.journal.append(JournalLine(token, self.task, call, tool, int(start), worker, 1, at, words.take("effect")))

    def _line(self, words: Words, at: int) -> None:
        self.job_lines.append(JobLine(self.task, words.take(), at, words.seconds("error", 0) or 0, 1))

    def _lock(self, words: Words, at: int) -> None:
        self.looks.append(at)
        self.locks.append(LockSeen(at, words.take(), 1, float(words.take()), "an append"))

    def _sent(self, words: Words, at: int) -> None:
        key, number = words.take(), words.take("-")
        outcome = words.take("stored")
        number_of = None if number == "-" else int(number)
        what = None if "item" not in words.named else language.item(words.named["item"])
        item, wakes = ("", "") if what is None else (item_hash(what), item_key(what))
        self.sent.append(Sent(self.task, None if key == "-" else key, number_of, outcome, at, item, wakes))

    def _script(self, words: Words, at: int) -> None:
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
                cancels=words.several("cancels"),
                **given,
            )
        )

    def _fault(self, words: Words, at: int) -> None:
        kind, process = words.take(), words.take()
        held = tuple(Held(one.split("@")[0], int(one.split("@")[1])) for one in words.take("").split(",") if one)
        ended_at = words.seconds("until", at + SECOND)
        self.faults.append(FaultSeen(at, kind, process, ended_at, (process,), held))
