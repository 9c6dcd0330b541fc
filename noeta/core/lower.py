"""From a commit to the plain data a store writes: every decision is made here, none in a store.

``lower_commit`` checks a commit and computes its bodies, the items it takes and the row it leaves, both for
an inbox that has not moved and for one that has. A store locks, compares and writes what it is handed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Final, get_args

from noeta.core import codec, ids, limits, texts
from noeta.core.errors import BadInput
from noeta.core.events import (
    Ending,
    Event,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskSuspended,
    numbers_taken,
)
from noeta.core.ids import check_name, check_task_id, micros, sha256_text
from noeta.core.store import Child, Claim, Commit, Content, Continue, End, NewTask, PutBack, Suspend
from noeta.core.task import TRANSITIONS, Cause, Keeps, Shape
from noeta.core.telling import told_of_child
from noeta.core.wake import (
    BACKGROUND,
    CANCEL,
    CLOSE,
    ControlReceived,
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
    WakeEvent,
    condition_key,
    due_at,
    item_group_key,
    item_key,
    members_missing,
    timed_out,
)


@dataclass(frozen=True, slots=True)
class Target:
    """What the row becomes. ``ready_at`` is an instant, ``ready_in`` a span from the store's now (microseconds;
    at most one is set). ``clears_owner``: worker, token and lease are cleared."""

    cause: Cause
    shape: Shape
    clears_owner: bool
    ready_at: int | None = None
    ready_in: int | None = None
    wake_on: WakeCondition | None = None
    wake_on_body: str | None = None
    wake_key: str | None = None
    wake_missing: int = 0


@dataclass(frozen=True, slots=True)
class LoweredItem:
    """An item ready to be stored. ``key`` None: no dedupe. ``with_ending``: only if the terminal entry lands."""

    task_id: str
    key: str | None
    body: str
    wake_key: str
    group_key: str | None
    with_ending: bool = False


@dataclass(frozen=True, slots=True)
class LoweredTask:
    """A task ready to be stored: its first entry's body, and a hash that tells a repeat from a duplicate id.

    ``adopted``: its parent is another task than the one whose commit it is born with.
    """

    id: str
    queue: str
    body: str
    content_hash: str
    ready_in: int
    parent: str | None
    group: str | None
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class LoweredCancel:
    """A cancel ready to be applied: the order itself, and what ends the task if nobody runs it. ``result``: for its
    parent."""

    item: LoweredItem
    ending: str
    result: LoweredItem | None


@dataclass(frozen=True, slots=True)
class Write:
    """A lowered commit.

    ``bodies`` land in any case, at ``expected_seq + 1`` on. ``ending`` lands after them unless the inbox has
    moved past ``inbox_seen`` and ``target_moved`` is not terminal. ``inbox_seen`` None: the inbox is not
    compared. ``takes`` are (number, index into bodies + ending).
    """

    task_id: str
    epoch: int
    token: str
    expected_seq: int
    bodies: tuple[str, ...]
    ending: str | None
    takes: tuple[tuple[int, int], ...]
    inbox_seen: int | None
    target: Target
    target_moved: Target
    posts: tuple[LoweredItem, ...]
    children: tuple[LoweredTask, ...]
    contents: tuple[tuple[str, Content], ...]
    resets_failures: bool


CASCADE_KEY: Final = "cancel:parent"
CASCADE_BODY: Final = codec.encode("order", ControlReceived(CANCEL, texts.PARENT_ENDED))
"""What every unfinished child gets in the transaction that ends its parent, under this key."""

_PENDING_NOW: Final = Target(Cause.PUT_BACK, Shape.PENDING, clears_owner=True, ready_in=0)


def lower_commit(claim: Claim, expected_seq: int, commit: Commit) -> Write:
    """Check a commit and compute all that a store needs to apply it.

    Raises:
        BadInput: a part is out of its bounds; nothing was sent.
    """
    for field, parts in (
        ("commit.entries", commit.entries),
        ("commit.children", commit.children),
        ("commit.posts", commit.posts),
        ("commit.contents", commit.contents),
    ):
        if len(parts) > limits.COMMIT_PARTS_MAX:
            raise BadInput(field, f"at most {limits.COMMIT_PARTS_MAX}, found {len(parts)}")
    check_number("expected_seq", expected_seq)
    check_number("commit.inbox_seen", commit.inbox_seen)
    for i, event in enumerate(commit.entries):
        _check_kind(f"commit.entries[{i}]", event, Event)
        if isinstance(event, TaskCreated | Ending):  # Keeps: gapless-log, terminal-is-final
            raise BadInput(f"commit.entries[{i}]", f"{type(event).__name__} is not written as an ordinary entry")
    bodies = tuple(codec.encode(f"commit.entries[{i}]", event) for i, event in enumerate(commit.entries))
    takes = tuple((number, i) for i, event in enumerate(commit.entries) for number in numbers_taken(event))
    _check_takes(takes)
    ending_entry = commit.next.entry if isinstance(commit.next, End) else None
    if ending_entry is not None:
        _check_kind("commit.next.entry", ending_entry, Ending)
    ending = None if ending_entry is None else codec.encode("commit.next.entry", ending_entry)
    posts = [lower_item(post.task_id, post.item, post.key, field="commit.posts") for post in commit.posts]
    result = None if ending_entry is None else _result_of(claim, ending_entry)
    if result is not None:
        posts.append(result)
    target, target_moved = _targets(commit)
    write = Write(
        task_id=claim.task_id,
        epoch=claim.epoch,
        token=claim.token,
        expected_seq=expected_seq,
        bodies=bodies,
        ending=ending,
        takes=takes,
        inbox_seen=None if target == target_moved else commit.inbox_seen,
        target=target,
        target_moved=target_moved,
        posts=tuple(posts),
        children=tuple(_lower_child(claim, child) for child in commit.children),
        contents=tuple((_lower_content(content), content) for content in commit.contents),
        resets_failures=any(isinstance(event, TaskSuspended) for event in commit.entries),
    )
    size = sum(map(len, bodies)) + len(ending or "") + sum(len(post.body) for post in posts)
    size += sum(len(child.body) for child in write.children)
    if size > limits.COMMIT_BYTES_MAX:
        raise BadInput("commit", f"at most {limits.COMMIT_BYTES_MAX} bytes of bodies, found {size}")
    return write


def lower_task(task: NewTask) -> LoweredTask:
    """Check a new task and compute its first entry."""
    check_task_id(task.id)
    check_name("queue", task.queue)
    check_name("agent", task.agent)
    check_span("delay_seconds", task.delay_seconds, limits.DELAY_SECONDS_MAX, zero=True)
    created = TaskCreated(agent=task.agent, goal=task.goal, interactive=task.interactive)
    body = codec.encode("task", created)
    return LoweredTask(
        id=task.id,
        queue=task.queue,
        body=body,
        content_hash=sha256_text(f"{task.queue}\n{body}"),
        ready_in=micros(task.delay_seconds),
        parent=None,
        group=None,
    )


def lower_item(task_id: str, item: Item, key: str | None, *, field: str = "item") -> LoweredItem:
    """Check an item on its way to an inbox.

    Raises:
        BadInput: also for ``TimerFired``: only the store makes it. Keeps: timers-once.
    """
    _check_kind(field, item, Item)
    if isinstance(item, TimerFired):
        raise BadInput(field, "TimerFired is made by the store alone; post an ExternalEvent instead")
    if isinstance(item, SubtaskGroupCompleted):
        raise BadInput(field, "SubtaskGroupCompleted is built from its members' results, which are counted")
    if timed_out(item):
        raise BadInput(f"{field}.timeout_at", "the store alone says that a wait's time is over; leave it out")
    check_name("task_id", task_id, chars_max=limits.TASK_ID_CHARS_MAX)
    if key is not None:
        check_name("key", key, chars_max=limits.KEY_CHARS_MAX)
        if key == CASCADE_KEY or key.startswith((ids.TIMER_KEY, ids.CHILD_KEY)):
            own = f"{CASCADE_KEY!r}, and what begins with {ids.TIMER_KEY!r} or {ids.CHILD_KEY!r}"
            raise BadInput("key", f"{own}, are the store's, found {key!r}")
    body = codec.encode(field, item, bytes_max=limits.ITEM_BYTES_MAX)
    for name in (item_key(item), item_group_key(item)):
        if name is not None:
            check_name(f"{field} identity", name, chars_max=limits.KEY_CHARS_MAX)
    if isinstance(item, ControlReceived) and item.action not in (CANCEL, CLOSE):
        raise BadInput(f"{field}.action", f"expected 'cancel' or 'close', found {item.action!r}")
    return LoweredItem(task_id, key, body, item_key(item), item_group_key(item))


def lower_wake(task_id: str, event: WakeEvent) -> LoweredItem:
    """Check a wake event. A child ends once, so that what is told of it is keyed by it, beside the result that its
    ending posts: one that a host tells does not take its place. The key of another event is left to the store, which
    derives it under the row's lock. Keeps: wake-once, children-once."""
    return lower_item(task_id, event, f"told:{item_key(event)}" if isinstance(event, SubtaskCompleted) else None)


def lower_result(child: str, parent: str, group: str | None, ending: Ending) -> LoweredItem:
    """The result a child's ending posts to its parent, which waits for it; of a child in the background, a message.
    Keeps: children-once."""
    match ending:
        case TaskCompleted():
            status, output = "completed", ending.answer or ""
        case TaskFailed():
            status, output = "failed", f"{ending.reason}: {ending.message}"
        case _:
            status, output = "cancelled", ending.reason
    most = limits.RESULT_BYTES_MAX if group in (None, BACKGROUND) else limits.MEMBER_RESULT_BYTES_MAX
    output = codec.cut(output, most, texts.RESULT_CUT)
    result: Item
    if group == BACKGROUND:
        result = HumanResponseReceived(text=told_of_child(child, status, output), sender=child)
    else:
        result = SubtaskCompleted(child, status, output, group)
    key = f"{ids.CHILD_KEY}{child}"
    return LoweredItem(parent, key, codec.encode("result", result), item_key(result), item_group_key(result), True)


def is_cancel(item: Item) -> bool:
    """Whether this order ends a task that nobody runs, in the transaction that posts it."""
    return isinstance(item, ControlReceived) and item.action == CANCEL


def cancelled_by(order: ControlReceived) -> TaskCancelled:
    """The terminal entry of a task that this order ends; a long reason is cut, never refused."""
    return TaskCancelled(codec.escape_text(order.reason)[: limits.REASON_CHARS_MAX])


def lower_cancel(item: LoweredItem, order: ControlReceived, parent: str | None, group: str | None) -> LoweredCancel:
    """What cancelling a task writes, given who its parent is, which never changes. Keeps: terminal-is-final."""
    ending = cancelled_by(order)
    result = None if parent is None else lower_result(item.task_id, parent, group, ending)
    return LoweredCancel(item, codec.encode("ending", ending), result)


def lower_failure(claim: Claim, reason: str) -> tuple[str, LoweredItem | None]:
    """The terminal entry, and the parent's item, of a task whose failures hit the bound. The reason is cut and
    escaped, never refused: an error path must not fail on its own text."""
    message = codec.escape_text(reason)[: limits.REASON_CHARS_MAX]
    ending = TaskFailed(texts.TOO_MANY_FAILURES, message)
    return codec.encode("ending", ending), _result_of(claim, ending)


def _result_of(claim: Claim, ending: Ending) -> LoweredItem | None:
    return None if claim.parent is None else lower_result(claim.task_id, claim.parent, claim.group, ending)


def check_claim_input(
    worker: str, queues: Sequence[str] | None, lease_seconds: float, token: str | None, limit: int
) -> None:
    """Refuse a claim call's bad arguments before anything is sent."""
    check_name("worker", worker)
    if queues is not None:
        if isinstance(queues, str):
            raise BadInput("queues", f"expected a sequence of names, found the text {queues!r}")
        if not queues:
            raise BadInput("queues", "must name at least one queue; None means every queue")
        for queue in queues:
            check_name("queue", queue)
    check_lease(lease_seconds)
    if token is not None:
        check_name("token", token)
    check_count("limit", limit, limits.CLAIM_LIMIT_MAX)


def check_number(field: str, number: int) -> None:
    """Refuse a position that is not in 0 .. ``INTEGER_MAX``."""
    found: object = number
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= limits.INTEGER_MAX:
        raise BadInput(field, f"from 0 to {limits.INTEGER_MAX}, found {number!r}")


def check_lease(lease_seconds: float) -> None:
    """A lease is a positive span of at most a week."""
    check_span("lease_seconds", lease_seconds, limits.LEASE_SECONDS_MAX)


def check_span(field: str, seconds: float, seconds_max: float, *, zero: bool = False) -> None:
    """Refuse spans that are no number, not finite, negative (or zero) or beyond the limit."""
    number: object = seconds  # callers without a type checker are told, too
    if not is_finite(number):
        raise BadInput(field, f"expected a finite number of seconds, found {seconds!r:.200}")
    if seconds < 0 or (seconds == 0 and not zero) or seconds > seconds_max:
        least = "at least 0" if zero else "above 0"
        raise BadInput(field, f"{least} and at most {seconds_max:.15g} seconds, found {seconds!r}")


def is_finite(number: object) -> bool:
    """Whether it is a number that a float can hold, and neither NaN nor infinite."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def check_instant(field: str, seconds: float) -> None:
    """Refuse an instant beyond the year 9999; one in the past is due at once."""
    number: object = seconds
    if not is_finite(number):
        raise BadInput(field, f"expected a finite number of seconds since 1970, found {seconds!r:.200}")
    if abs(seconds) > limits.INSTANT_SECONDS_MAX:
        raise BadInput(field, f"at most {limits.INSTANT_SECONDS_MAX:.15g} seconds from 1970, found {seconds!r}")


def check_count(field: str, count: int, count_max: int) -> None:
    """Refuse a page size or limit that is not in 1 .. ``count_max``."""
    number: object = count
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= count_max:
        raise BadInput(field, f"from 1 to {count_max}, found {count!r}")


def _targets(commit: Commit) -> tuple[Target, Target]:
    match commit.next:
        case Continue():
            running = _target(Cause.CONTINUE)
            return running, running
        case Suspend(wake_on=wake_on, keep=keep, known=known, again=again):
            _check_kind("wake_on", wake_on, WakeCondition)
            body = codec.encode("wake_on", wake_on)
            due = due_at(wake_on)
            if due is not None:
                check_instant("wake_on.fire_at" if isinstance(wake_on, TimerFired) else "wake_on.timeout_at", due)
            ready_at = None if due is None else micros(due)
            key = check_name("wake_on", condition_key(wake_on), chars_max=limits.KEY_CHARS_MAX)
            cause = Cause.KEEP if keep else Cause.SUSPEND
            ready = _target(Cause.CONTINUE) if keep else _PENDING_NOW
            missing = members_missing(wake_on, known)
            if missing == 0:  # every member has ended: no later item would end the wait. Keeps: never-stuck
                return ready, ready
            waiting = _target(
                cause, ready_at=ready_at, wake_on=wake_on, wake_on_body=body, wake_key=key, wake_missing=missing
            )
            return waiting, _target(Cause.CONTINUE) if again else ready
        case PutBack(delay_seconds=delay):
            check_span("delay_seconds", delay, limits.DELAY_SECONDS_MAX, zero=True)
            back = _target(Cause.PUT_BACK, ready_in=micros(delay))
            return back, back
        case End(entry=entry):
            end = _target(Cause.END)
            return end, _target(Cause.CONTINUE) if isinstance(entry, TaskCompleted) else end


def _target(
    cause: Cause,
    *,
    ready_at: int | None = None,
    ready_in: int | None = None,
    wake_on: WakeCondition | None = None,
    wake_on_body: str | None = None,
    wake_key: str | None = None,
    wake_missing: int = 0,
) -> Target:
    line = TRANSITIONS[cause]
    return Target(
        cause,
        line.to,
        line.owner is Keeps.CLEARED,
        ready_at,
        ready_in,
        wake_on,
        wake_on_body,
        wake_key,
        wake_missing,
    )


def _lower_child(claim: Claim, child: Child) -> LoweredTask:
    if not child.id.startswith(f"{claim.task_id}."):
        raise BadInput("child.id", f"must be derived from {claim.task_id!r}, found {child.id!r}")
    check_name("child.id", child.id, chars_max=limits.TASK_ID_CHARS_MAX)
    check_name("child.agent", child.agent)
    parent = claim.task_id if child.parent is None else child.parent
    root = parent if child.root is None else child.root
    check_count("child.depth", child.depth, limits.TASK_ID_CHARS_MAX)
    if parent != claim.task_id and not claim.task_id.startswith(f"{parent}."):
        # Its row is locked before this task's own: an ancestor's id sorts first.
        raise BadInput("child.parent", f"must be {claim.task_id!r} or a task above it, found {parent!r}")
    created = TaskCreated(child.agent, child.goal, child.interactive, parent, child.group, root, child.depth)
    body = codec.encode("child", created)
    content_hash = sha256_text(f"{claim.queue}\n{body}")
    return LoweredTask(
        child.id, claim.queue, body, content_hash, 0, parent, child.group, adopted=parent != claim.task_id
    )


def _lower_content(content: Content) -> str:
    return ids.sha256_bytes(check_content(content.body))


def check_content(body: bytes) -> bytes:
    """Refuse a content body beyond the limit."""
    if not isinstance(body, bytes):
        raise BadInput("content", f"expected bytes, found {type(body).__name__}")
    if len(body) > limits.CONTENT_BYTES_MAX:
        raise BadInput("content", f"at most {limits.CONTENT_BYTES_MAX} bytes, found {len(body)}")
    return body


def _check_kind(field: str, value: object, kinds: UnionType) -> None:
    """Refuse what is not of these kinds: callers without a type checker are told, too."""
    if not isinstance(value, kinds):
        raise BadInput(
            field, f"expected one of {', '.join(k.__name__ for k in get_args(kinds))}, found {type(value).__name__}"
        )


def _check_takes(takes: Sequence[tuple[int, int]]) -> None:
    numbers = [number for number, _ in takes]
    if len(set(numbers)) != len(numbers):
        raise BadInput("commit.entries", f"an item is taken twice in one commit: {sorted(numbers)}")
