"""Records what a process asked of its store: before it is sent, and again after the answer.

Without this record nobody can tell a store that loses what it acknowledged. What a claim takes is only known
from its answer, so claims are recorded then, one attempt per task taken; likewise the tasks that a worker
adopts after a claim of unknown outcome (a look-up by token). Reads, sweeps, contents and snapshots write no
entry and hold no fence: they are not recorded.

A cancel may end its task in the transaction that posts it. So it is recorded with the hash of the entry that it would
write, and after its answer with the epoch and the seq of the one that it wrote, or with none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from invariants.evidence import Answer, Attempt, Sent, Verb
from invariants.kinship import item_hash
from noeta.backends.stores.around import AroundStore, Call
from noeta.core import codec, lower
from noeta.core.errors import BadInput, CommitUnknown, Conflict, NoetaError, StoreUnavailable
from noeta.core.events import TaskCompleted
from noeta.core.ids import sha256_text
from noeta.core.store import (
    Append,
    Appended,
    Claim,
    Claims,
    Commit,
    Created,
    End,
    Failed,
    NewTask,
    Posted,
    Renewal,
    Store,
    claim_from_row,
)
from noeta.core.task import Status, TaskRow
from noeta.core.wake import ControlReceived, Item, item_key

T = TypeVar("T")


class Sink(Protocol):
    """Where attempts go. A file sink makes ``sent`` durable against the death of its process before it returns."""

    def sent(self, attempt: Attempt) -> None:
        """It is about to be sent."""
        ...

    def answered(self, attempt: Attempt) -> None:
        """The attempt of this id, whole. An attempt that is known only from its answer was never ``sent``."""
        ...


class MemorySink:
    """Implements ``Sink``: the attempts of one process in the order in which they were made."""

    def __init__(self) -> None:
        self._attempts: dict[str, Attempt] = {}

    def sent(self, attempt: Attempt) -> None:
        self._attempts[attempt.id] = attempt

    def answered(self, attempt: Attempt) -> None:
        self._attempts[attempt.id] = attempt

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All of them; those without an answer are as they were sent."""
        return tuple(self._attempts.values())


class RecordingStore(AroundStore):
    """A store handle of one process, all of whose writes are recorded.

    ``process``: name and incarnation. ``clock`` gives the sender's time in microseconds since the epoch.
    """

    def __init__(self, inner: Store, sink: Sink, *, process: str, clock: Callable[[], int]) -> None:
        super().__init__(inner)
        self._sink = sink
        self._process = process
        self._clock = clock
        self._count = 0

    def around(self, call: Call, do: Callable[[], T]) -> T:
        before = tuple(self._attempts(call))
        for attempt in before:
            self._sink.sent(attempt)
        try:
            answer = do()
        except NoetaError as error:
            kind, at = answer_of(error), self._clock()
            for attempt in before:
                self._sink.answered(replace(attempt, answer=kind, answered_at=at))
            raise
        self._record_answer(call, before, answer)
        return answer

    # -- before --------------------------------------------------------------------------------------------

    def _attempts(self, call: Call) -> Iterable[Attempt]:
        args = call.args
        match call.verb:
            case "create":
                yield self._create(args["task"])
            case "append":
                yield self._append(args["claim"], args["expected_seq"], args["commit"])
            case "append_many":
                appends: Sequence[Append] = args["appends"]
                for one in appends:
                    yield self._append(one.claim, one.expected_seq, one.commit)
            case "renew":
                for claim in args["claims"]:
                    yield self._held(Verb.RENEW, claim)
            case "release" | "resume":
                yield self._held(Verb(call.verb), args["claim"])
            case "fail":
                yield self._fail(args["claim"], args["reason"])
            case "post" | "wake":
                assert call.task_id is not None
                yield self._post(Verb(call.verb), call.task_id, args.get("item", args.get("event")), args.get("key"))
            case _:
                return

    def _post(self, verb: Verb, task: str, item: Item, key: str | None) -> Attempt:
        try:
            stored, hashes = item_hash(item), cancel_hashes(item)
        except BadInput:
            stored, hashes = None, ()
        attempt = self._attempt(verb, self._process, task, key=key, hashes=hashes)
        return replace(attempt, item=stored)

    def _create(self, task: NewTask) -> Attempt:
        try:
            hashes: tuple[str, ...] = (sha256_text(lower.lower_task(task).body),)
        except BadInput:  # the store refuses it in the same way
            hashes = ()
        return self._attempt(Verb.CREATE, self._process, task.id, expected_seq=0, hashes=hashes)

    def _append(self, claim: Claim, expected_seq: int, commit: Commit) -> Attempt:
        ending = commit.next.entry if isinstance(commit.next, End) else None
        entries = commit.entries if ending is None else (*commit.entries, ending)
        try:
            hashes = tuple(sha256_text(codec.encode("entry", event)) for event in entries)
        except BadInput:
            hashes = ()
        return self._attempt(
            Verb.APPEND,
            claim.worker,
            claim.task_id,
            epoch=claim.epoch,
            token=claim.token,
            expected_seq=expected_seq,
            hashes=hashes,
            may_hold_back=isinstance(ending, TaskCompleted),
            lease_until=claim.lease_until,
        )

    def _fail(self, claim: Claim, reason: str) -> Attempt:
        """With the entry that it writes if it hits the bound. Only the store knows whether it does and at which seq,
        so ``expected_seq`` is None until its answer tells."""
        try:
            ending, _ = lower.lower_failure(claim, reason)
            hashes: tuple[str, ...] = (sha256_text(ending),)
        except BadInput:
            hashes = ()
        return replace(self._held(Verb.FAIL, claim), hashes=hashes)

    def _held(self, verb: Verb, claim: Claim) -> Attempt:
        return self._attempt(
            verb, claim.worker, claim.task_id, epoch=claim.epoch, token=claim.token, lease_until=claim.lease_until
        )

    def _attempt(
        self,
        verb: Verb,
        worker: str,
        task: str,
        *,
        epoch: int | None = None,
        token: str | None = None,
        expected_seq: int | None = None,
        hashes: tuple[str, ...] = (),
        may_hold_back: bool = False,
        key: str | None = None,
        lease_until: int | None = None,
    ) -> Attempt:
        self._count += 1
        return Attempt(
            id=f"{self._process}/{self._count}",
            process=self._process,
            worker=worker,
            verb=verb,
            task=task,
            sent_at=self._clock(),
            epoch=epoch,
            token=token,
            expected_seq=expected_seq,
            hashes=hashes,
            may_hold_back=may_hold_back,
            key=key,
            lease_until=lease_until,
        )

    # -- after ---------------------------------------------------------------------------------------------

    def _record_answer(self, call: Call, before: tuple[Attempt, ...], answer: object) -> None:
        match answer:
            case Claims():
                for claim in answer.claims:
                    self._granted(claim)
            case tuple() if call.verb == "append_many":
                for attempt, one in zip(before, answer, strict=True):
                    self._answered(attempt, one)
            case tuple() if call.verb == "renew":
                for attempt, renewal in zip(before, answer, strict=True):
                    self._renewed(attempt, renewal)
            case tuple() if call.verb == "tasks" and call.args["token"] is not None:
                for row in answer:
                    assert isinstance(row, TaskRow)
                    if row.lease_until is not None:
                        self._granted(claim_from_row(row))
            case Failed(status=Status.TERMINAL):
                for attempt in before:
                    self._answered(replace(attempt, expected_seq=answer.last_seq - 1), answer)
            case Failed():  # it will be tried again: nothing was written
                for attempt in before:
                    self._answered(replace(attempt, hashes=()), answer)
            case _:
                for attempt in before:
                    self._answered(attempt, answer)

    def _granted(self, claim: Claim) -> None:
        attempt = self._held(Verb.CLAIM, claim)
        answered = replace(attempt, answer=Answer.OK, answered_at=self._clock(), answer_seq=claim.last_seq)
        self._sink.answered(replace(answered, outcome=claim.cause))

    def _renewed(self, attempt: Attempt, renewal: Renewal) -> None:
        answer = {"held": Answer.OK, "lost": Answer.CONFLICT}.get(renewal.outcome, Answer.UNAVAILABLE)
        lease_until = renewal.lease_until if answer is Answer.OK else attempt.lease_until
        self._sink.answered(replace(attempt, answer=answer, answered_at=self._clock(), lease_until=lease_until))

    def _answered(self, attempt: Attempt, answer: object) -> None:
        at = self._clock()
        match answer:
            case NoetaError():
                attempt = replace(attempt, answer=answer_of(answer), answered_at=at)
            case Appended() | Failed():
                attempt = replace(attempt, answer=Answer.OK, answered_at=at, answer_seq=answer.last_seq)
            case Created():
                attempt = replace(attempt, answer=Answer.OK, answered_at=at, answer_seq=1)
            case Posted():
                attempt = posted(attempt, answer.outcome, answer.number, answer.epoch, answer.last_seq, at)
            case _:
                attempt = replace(attempt, answer=Answer.OK, answered_at=at)
        self._sink.answered(attempt)


def cancel_hashes(item: Item) -> tuple[str, ...]:
    """The hash of the entry that this item writes, if it is a cancel and nobody runs its task; of others, none.

    Raises:
        BadInput: the store refuses the item in the same way.
    """
    if not isinstance(item, ControlReceived) or not lower.is_cancel(item):
        return ()
    return (sha256_text(codec.encode("ending", lower.cancelled_by(item))),)


def posted(
    attempt: Attempt, outcome: str, number: int | None, epoch: int | None, last_seq: int | None, at: int
) -> Attempt:
    """A post after its answer: with the entry that it wrote, if it ended its task, and none otherwise."""
    attempt = replace(attempt, answer=Answer.OK, answered_at=at, outcome=outcome)
    if outcome != "cancelled" or last_seq is None:
        return replace(attempt, hashes=(), answer_seq=number)
    return replace(attempt, epoch=epoch, expected_seq=last_seq - 1, answer_seq=last_seq)


def sent_of(task: str, key: str | None, item: Item, answer: Posted, at: int) -> Sent:
    """A client's own word for a post that was answered."""
    return Sent(task, key, answer.number, answer.outcome, at, item_hash(item), item_key(item))


def answer_of(error: NoetaError) -> Answer:
    """What an error says about the write it answers."""
    match error:
        case Conflict():
            return Answer.CONFLICT
        case StoreUnavailable():
            return Answer.UNAVAILABLE
        case CommitUnknown():
            return Answer.UNKNOWN
        case _:
            return Answer.REFUSED
