"""From a commit to data: the target for an inbox that has not moved and for one that has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noeta.core import ids, limits, lower, texts
from noeta.core.errors import BadInput
from noeta.core.events import (
    MessageTaken,
    ModelCalled,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
)
from noeta.core.store import Child, Claim, Commit, Content, Continue, End, NewTask, Next, Post, PutBack, Suspend
from noeta.core.task import TRANSITIONS, Cause, Keeps, Shape
from noeta.core.wake import (
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
    condition_key,
    members_missing,
)
from tests.unit.core.logs import CONDITIONS, ITEMS

CLAIM = Claim("t", "q", "w", 3, "token", 9, 5, 2, 0, 0, "pending")
CHILD_CLAIM = Claim("p.2-0.0", "q", "w", 1, "token", 9, 5, 2, 0, 0, "pending", parent="p", group="g")
MESSAGE = HumanResponseReceived(text="hi")
NEXTS: st.SearchStrategy[Next] = st.one_of(
    st.just(Continue()),
    st.builds(Suspend, CONDITIONS, st.booleans(), st.lists(ITEMS, max_size=3).map(tuple)),
    st.builds(PutBack, st.floats(0, 100)),
    st.sampled_from([End(TaskCompleted("a")), End(TaskFailed("b")), End(TaskCancelled("c"))]),
)


@given(NEXTS, st.integers(0, 9))
def test_both_targets_are_lines_of_the_table(next: Next, inbox_seen: int) -> None:
    """Keeps: row-agrees."""
    write = lower.lower_commit(CLAIM, 5, Commit(next=next, inbox_seen=inbox_seen))

    for target in (write.target, write.target_moved):
        line = TRANSITIONS[target.cause]
        assert target.shape is line.to
        assert target.clears_owner == (line.owner is Keeps.CLEARED)
        assert (target.wake_on is not None) == (line.wake is Keeps.GIVEN)
        assert (target.wake_on is None) == (target.wake_key is None) == (target.wake_on_body is None)
        assert target.ready_at is None or target.ready_in is None
        assert (target.shape is Shape.PENDING) <= (target.ready_in is not None)


@given(NEXTS, st.integers(0, 9))
def test_the_inbox_is_compared_exactly_when_it_decides(next: Next, inbox_seen: int) -> None:
    write = lower.lower_commit(CLAIM, 5, Commit(next=next, inbox_seen=inbox_seen))

    assert (write.inbox_seen is None) == (write.target == write.target_moved)
    assert write.inbox_seen in (None, inbox_seen)


@given(CONDITIONS, st.lists(ITEMS, max_size=4).map(tuple))
def test_a_wait_that_misses_an_item_is_ready_and_a_kept_one_goes_on(
    condition: WakeCondition, known: tuple[Item, ...]
) -> None:
    """Keeps: wake-once, never-stuck."""
    loose = lower.lower_commit(CLAIM, 5, Commit(next=Suspend(condition, False, known)))
    kept = lower.lower_commit(CLAIM, 5, Commit(next=Suspend(condition, True, known)))

    assert (loose.target_moved.shape, loose.target_moved.ready_in) == (Shape.PENDING, 0)
    assert kept.target_moved.shape is Shape.RUNNING
    missing = members_missing(condition, known)
    if missing == 0:
        assert (loose.target, kept.target) == (loose.target_moved, kept.target_moved)
    else:
        assert (loose.target.shape, kept.target.shape) == (Shape.SUSPENDED, Shape.KEPT)
        assert loose.target.wake_missing == kept.target.wake_missing == missing
        assert loose.target.wake_key == condition_key(condition)


def test_only_a_completion_waits_for_the_inbox() -> None:
    """Keeps: taken-once."""
    completed = lower.lower_commit(CLAIM, 5, Commit(next=End(TaskCompleted())))
    failed = lower.lower_commit(CLAIM, 5, Commit(next=End(TaskFailed("x"))))
    cancelled = lower.lower_commit(CLAIM, 5, Commit(next=End(TaskCancelled())))

    assert (completed.target.shape, completed.target_moved.shape) == (Shape.TERMINAL, Shape.RUNNING)
    assert {w.shape for one in (failed, cancelled) for w in (one.target, one.target_moved)} == {Shape.TERMINAL}
    assert (completed.inbox_seen, failed.inbox_seen, cancelled.inbox_seen) == (0, None, None)


def test_a_timers_instant_is_the_rows() -> None:
    write = lower.lower_commit(CLAIM, 5, Commit(next=Suspend(TimerFired(1.5))))

    assert (write.target.ready_at, write.target.wake_key) == (1_500_000, "timer")


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_an_instant_is_accepted_or_named(fire_at: float) -> None:
    """https://github.com/lincolnloop/django-absurd/pull/89"""
    commit = Commit(next=Suspend(TimerFired(fire_at)))
    if abs(fire_at) <= limits.INSTANT_SECONDS_MAX:
        ready_at = lower.lower_commit(CLAIM, 5, commit).target.ready_at
        assert ready_at is not None and abs(ready_at) < 2**63
    else:
        with pytest.raises(BadInput, match="fire_at"):
            lower.lower_commit(CLAIM, 5, commit)


def test_items_are_taken_by_the_entries_that_record_them() -> None:
    """Keeps: taken-once."""
    entries = (MessageTaken(4, MESSAGE), ModelCalled("h", 1), TaskWoken((7, 6), MESSAGE))

    assert lower.lower_commit(CLAIM, 5, Commit(entries)).takes == ((4, 0), (7, 2), (6, 2))
    with pytest.raises(BadInput, match="twice"):
        lower.lower_commit(CLAIM, 5, Commit((*entries, MessageTaken(6, MESSAGE))))


@pytest.mark.parametrize(
    ("ending", "status", "output"),
    [
        (TaskCompleted("42"), "completed", "42"),
        (TaskFailed("code", "text"), "failed", "code: text"),
        (TaskCancelled("stop"), "cancelled", "stop"),
    ],
)
def test_a_childs_ending_posts_its_result_to_its_parent(ending: TaskCompleted, status: str, output: str) -> None:
    """Keeps: children-once."""
    (post,) = lower.lower_commit(CHILD_CLAIM, 5, Commit(next=End(ending))).posts

    assert (post.task_id, post.key, post.with_ending) == ("p", "child:p.2-0.0", True)
    assert (post.wake_key, post.group_key) == ("child:p.2-0.0", "group:g")
    assert f'"status":"{status}","output":"{output}"' in post.body


def test_a_roots_ending_posts_nothing() -> None:
    assert lower.lower_commit(CLAIM, 5, Commit(next=End(TaskCompleted()))).posts == ()


def test_children_inherit_the_queue_and_know_their_parent() -> None:
    commit = Commit(children=(Child("t.5-0.0", "helper", "go", group="g"),))
    (child,) = lower.lower_commit(CLAIM, 5, commit).children

    assert (child.id, child.queue, child.parent, child.group, child.ready_in) == ("t.5-0.0", "q", "t", "g", 0)
    assert '"parent_task_id":"t","group":"g","root_task_id":"t","subtask_depth":1' in child.body


def test_a_hash_tells_a_repeat_from_another_task() -> None:
    one = lower.lower_task(NewTask("a", "agent", "goal"))
    again = lower.lower_task(NewTask("a", "agent", "goal", delay_seconds=5))
    other = lower.lower_task(NewTask("a", "agent", "goal", queue="other"))

    assert one.content_hash == again.content_hash != other.content_hash
    assert again.ready_in == 5_000_000


def test_a_suspension_resets_the_failures() -> None:
    rest = TaskSuspended(MESSAGE)

    assert lower.lower_commit(CLAIM, 5, Commit((rest,), Suspend(MESSAGE))).resets_failures
    assert not lower.lower_commit(CLAIM, 5, Commit((ModelCalled("h", 1),))).resets_failures


def test_a_failures_text_is_cut_and_escaped_and_never_refused() -> None:
    """https://github.com/kestra-io/kestra/pull/10653"""
    ending, result = lower.lower_failure(CHILD_CLAIM, "\ud800" + "x" * 100_000)

    assert texts.TOO_MANY_FAILURES in ending and "\\\\ud800x" in ending
    assert len(ending) < limits.REASON_CHARS_MAX + 200
    assert result is not None and result.key == "child:p.2-0.0"
    assert lower.lower_failure(CLAIM, "x")[1] is None


def test_a_commits_contents_are_addressed_by_their_bytes() -> None:
    ((hash, content),) = lower.lower_commit(CLAIM, 5, Commit(contents=(Content(b"x"),))).contents

    assert (hash, content.body) == (ids.sha256_bytes(b"x"), b"x")


def test_all_bodies_of_a_commit_together_have_a_limit() -> None:
    big = HumanResponseReceived(text="x" * (limits.ITEM_BYTES_MAX - 1_000))
    posts = tuple(Post("o", big, f"k{n}") for n in range(5))

    with pytest.raises(BadInput, match=str(limits.COMMIT_BYTES_MAX)):
        lower.lower_commit(CLAIM, 5, Commit(posts=posts))


def test_the_result_of_a_member_counts_for_its_group() -> None:
    known = tuple(SubtaskCompleted(f"t.1-0.{n}", group_id="g") for n in range(2))
    write = lower.lower_commit(CLAIM, 5, Commit(next=Suspend(SubtaskGroupCompleted("g", 3), known=known)))

    assert write.target.wake_missing == 1


@pytest.mark.parametrize("cause", [Cause.CONTINUE, Cause.PUT_BACK])
def test_going_on_does_not_look_at_the_inbox(cause: Cause) -> None:
    next: Next = Continue() if cause is Cause.CONTINUE else PutBack(2.5)
    write = lower.lower_commit(CLAIM, 5, Commit(next=next, inbox_seen=1))

    assert (write.target.cause, write.inbox_seen) == (cause, None)
