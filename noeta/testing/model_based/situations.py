"""What happened in a step that matters: a comparison in which one of these never occurred proves less than it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from noeta.core.events import numbers_taken
from noeta.core.store import (
    Appended,
    Claim,
    Claims,
    Commit,
    Created,
    End,
    Failed,
    LogPage,
    Posted,
    PutBack,
    Renewal,
    Resumed,
    Suspend,
)
from noeta.core.task import Shape
from noeta.core.wake import ExternalEvent, HumanResponseReceived, SubtaskGroupCompleted, TimerFired
from noeta.testing.model_based.calls import Call, Refused
from noeta.testing.model_based.family_situations import OF_FAMILIES, of_an_order, of_births, of_relatives

REQUIRED: Final = (
    "create repeated",
    "create refused: other content",
    "takeover of a running task",
    "takeover of a kept task",
    "takeover counted twice in a row",
    "timer fired by a claim",
    "timer fired by a sweep",
    "lapsed lease put back by a claim",
    "lapsed lease put back by a sweep",
    "renewal lost",
    "kept timer due at a renewal",
    "kept task resumed",
    "kept task resumed, its timer due",
    "resume of a task that runs",
    "stale claim refused",
    "log moved: refused",
    "item not unread: refused",
    "item taken",
    "suspended",
    "kept",
    "suspend moved",
    "suspend moved, kept",
    "suspend moved, again",
    "completion moved",
    "put back",
    "ended",
    "unread items stamped",
    "post of a commit refused",
    "child born",
    "child repeated",
    "child refused: other content",
    "result reached the parent",
    "group barrier lifted",
    "group complete before the suspension",
    "wait ended by an item",
    "item for a running task",
    "item for a kept task",
    "repeat of an unread item",
    "repeat after the take",
    "post to an ended task",
    "failure put back",
    "failure bound reached",
    "time limit over",
    "wait with a time limit ended by an item",
    *OF_FAMILIES,
)


def situations(
    step: Call, answer: object, before: Mapping[str, LogPage], after: Mapping[str, LogPage]
) -> Iterator[str]:
    """The situations of one step, by what the reference answered and how its tasks looked before and after."""
    match answer:
        case Created():
            if not answer.created:
                yield "create repeated"
        case Claims():
            yield from _of_claims(answer)
        case Posted():
            yield from _of_post(str(step.arguments[0]), answer, before)
            yield from of_an_order(step, answer, before)
        case Resumed():
            (claim,) = step.arguments
            assert isinstance(claim, Claim)
            yield _of_resume(before[claim.task_id], answer)
        case Failed():
            ended = answer.status.value == "terminal"
            if not ended:
                yield "failure put back"
            elif dict(step.options).get("retryable", True):
                yield "failure bound reached"
        case tuple():
            yield from _of_several(step, answer, before)
        case _:
            if step.verb == "append":
                claim, expected_seq, commit = step.arguments
                assert isinstance(claim, Claim)
                assert isinstance(commit, Commit)
                yield from _of_append(claim, expected_seq, commit, answer, before)
            elif isinstance(answer, Refused):
                yield from _of_refusal(answer)
    yield from _of_rows(step, before, after)
    yield from of_relatives(before, after)


def _of_claims(answer: Claims) -> Iterator[str]:
    for claim in answer.claims:
        if claim.cause in ("running", "kept"):
            yield f"takeover of a {claim.cause} task"
        if claim.takeovers > 1:
            yield "takeover counted twice in a row"
    if answer.timers_fired:
        yield "timer fired by a claim"
    if len(answer.stale_requeued) > sum(claim.cause in ("running", "kept") for claim in answer.claims):
        yield "lapsed lease put back by a claim"


def _of_post(task: str, answer: Posted, before: Mapping[str, LogPage]) -> Iterator[str]:
    page = before[task]
    if answer.outcome == "repeat":
        unread = {item.number for item in page.unread}
        taken = answer.number is not None and answer.number not in unread
        yield "repeat after the take" if taken else "repeat of an unread item"
    elif answer.outcome == "ended":
        yield "post to an ended task"
    elif page.row.shape in (Shape.RUNNING, Shape.KEPT):
        yield f"item for a {page.row.shape.value} task"
    if answer.made_ready:
        yield "wait ended by an item"


def _of_resume(page: LogPage, answer: Resumed) -> str:
    if not page.row.kept:
        return "resume of a task that runs"
    fired = answer.inbox_seq > page.row.inbox_seq
    return "kept task resumed, its timer due" if fired else "kept task resumed"


def _of_several(step: Call, answer: tuple[object, ...], before: Mapping[str, LogPage]) -> Iterator[str]:
    if step.verb == "append_many" and isinstance(step.arguments[0], list):
        for member, one in zip(step.arguments[0], answer, strict=True):
            yield from _of_append(member.claim, member.expected_seq, member.commit, one, before)
    elif step.verb in ("fire_due_timers", "requeue_stale") and answer:
        yield "timer fired by a sweep" if step.verb == "fire_due_timers" else "lapsed lease put back by a sweep"
    for one in answer:
        if isinstance(one, Renewal):
            if one.outcome == "lost":
                yield "renewal lost"
            elif one.timer_due:
                yield "kept timer due at a renewal"
            if one.ordered:
                yield "renewal with an order"


def _of_append(
    claim: Claim, expected_seq: object, commit: Commit, answer: object, before: Mapping[str, LogPage]
) -> Iterator[str]:
    page = before.get(claim.task_id)
    if isinstance(answer, Refused):
        if answer.code == "conflict" and page is not None:
            yield "log moved: refused" if expected_seq != page.row.last_seq else "item not unread: refused"
        elif answer.code == "duplicate_task":
            yield "child refused: other content"
        else:
            yield from _of_refusal(answer)
        return
    assert isinstance(answer, Appended)
    if answer.refused:
        yield "post of a commit refused"
    yield from _of_next(commit, answer)
    for child in commit.children:
        yield "child repeated" if child.id in before else "child born"
    yield from of_births(commit.children, before)
    if any(numbers_taken(entry) for entry in commit.entries):
        yield "item taken"


def _of_next(commit: Commit, answer: Appended) -> Iterator[str]:
    match commit.next:
        case Suspend(keep=keep, again=again):
            waits = answer.status.value == "suspended"
            if answer.moved:
                yield "suspend moved, kept" if keep else "suspend moved, again" if again else "suspend moved"
            elif waits:
                yield "kept" if keep else "suspended"
            elif isinstance(commit.next.wake_on, SubtaskGroupCompleted):
                yield "group complete before the suspension"
        case PutBack():
            yield "put back"
        case End():
            yield "completion moved" if answer.moved and answer.status.value == "running" else "ended"


def _of_refusal(answer: Refused) -> Iterator[str]:
    if answer.code == "invalid_lease":
        yield "stale claim refused"
    elif answer.code == "duplicate_task":
        yield "create refused: other content"


def _of_rows(step: Call, before: Mapping[str, LogPage], after: Mapping[str, LogPage]) -> Iterator[str]:
    for id, page in after.items():
        was = before.get(id)
        if was is None:
            continue
        by_time = step.verb in ("claim", "resume", "fire_due_timers")
        received = page.row.inbox_seq > was.row.inbox_seq
        posted = received and not by_time
        waited_for = was.row.wake_on if was.row.shape is Shape.SUSPENDED else None
        limited = isinstance(waited_for, ExternalEvent | HumanResponseReceived) and waited_for.timeout_at is not None
        if limited and received and by_time:
            yield "time limit over"
        if waited_for is not None and page.row.shape is Shape.PENDING and posted:
            if limited:
                yield "wait with a time limit ended by an item"
            if isinstance(waited_for, SubtaskGroupCompleted):
                yield "group barrier lifted"
        if posted and step.verb in ("append", "append_many", "fail") and page.unread:
            newest = page.unread[-1]
            if newest.key is not None and newest.key.startswith("child:") and not isinstance(newest.item, TimerFired):
                yield "result reached the parent"
        if page.row.shape is Shape.TERMINAL and was.row.shape is not Shape.TERMINAL and was.unread:
            yield "unread items stamped"
