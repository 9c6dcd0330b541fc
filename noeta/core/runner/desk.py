"""What one drive has in front of it: the folded log, the unread inbox, and what it noted but has not committed.

What is known together is committed together: events, the children they bear and the items they post are noted in
memory and flushed in one commit, right before something leaves (a model request, a tool) or the task rests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import UNSET

from noeta.core import codec, limits, texts
from noeta.core.events import (
    ApprovalAsked,
    Entry,
    Event,
    JobEnded,
    JobLost,
    JobStarted,
    MessageTaken,
    ModelReplied,
    StepAttemptAbandoned,
    ToolFinished,
    ToolStarted,
)
from noeta.core.fold import TaskState, advance
from noeta.core.jobs import OUTPUT_CHARS_TOLD, JobEnd, JobSpec
from noeta.core.runner.lease import Held
from noeta.core.store import Appended, Child, Commit, LogPage, Next, Post, Store, Suspend, UnreadItem
from noeta.core.wake import (
    NEXT_GOAL,
    ControlReceived,
    HumanResponseReceived,
    SubtaskCompleted,
    TimerFired,
    matches_wake,
    timed_out,
)

NOTED_MAX: Final = limits.COMMIT_PARTS_MAX // 2
NOTED_CHARS_MAX: Final = limits.COMMIT_BYTES_MAX // 16
"""What is noted at the most before it is flushed: a character takes six bytes at the most when it is encoded."""


class Desk:
    """One task as its owner sees it. ``on_seal`` hears of each seal that became durable."""

    def __init__(self, store: Store, held: Held, on_seal: Callable[[str, int], None]) -> None:
        self._store = store
        self._held = held
        self._on_seal = on_seal
        self._clear()

    def _clear(self) -> None:
        self.state = TaskState(self._held.claim.task_id)
        self.unread: list[UnreadItem] = []
        self._noted: list[Event] = []
        self._noted_chars = 0
        self._children: list[Child] = []
        self._posts: list[Post] = []
        self._jobs: dict[str, JobSpec] = {}
        self._durable_seq = 0
        self._inbox_seen = 0

    # -- reading -------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Fold the log from its start, and see the inbox as it is."""
        self._clear()
        more = True
        while more:
            page = self._read(self.state.last_seq)
            for entry in page.entries:
                advance(self.state, entry)
            more = page.more or page.inbox_seen < page.row.inbox_seq
        self._durable_seq = self.state.last_seq

    def look_again(self, *, for_certain: bool = False) -> None:
        """See what came since the inbox was last read, if anything did as far as is known; ``for_certain`` asks."""
        more = for_certain or self._held.inbox_seq > self._inbox_seen
        while more:
            page = self._read(self._durable_seq)
            if page.entries:
                self._held.cut("another worker has written to the log")
                self._held.check()
            more = page.inbox_seen < page.row.inbox_seq

    def _read(self, after: int) -> LogPage:
        """Entries after this seq, and the items that were not seen before."""
        page = self._store.read(self._held.claim.task_id, after, inbox_after=self._inbox_seen)
        self.unread += page.unread
        self._inbox_seen = page.inbox_seen
        return page

    # -- writing -------------------------------------------------------------------------------------------

    @property
    def has_notes(self) -> bool:
        """Whether something is noted that is not durable."""
        return bool(self._noted)

    @property
    def is_full(self) -> bool:
        """Whether what is noted must be committed before more is noted."""
        return len(self._noted) >= NOTED_MAX or self._noted_chars >= NOTED_CHARS_MAX

    def note(
        self,
        event: Event,
        *,
        children: Sequence[Child] = (),
        posts: Sequence[Post] = (),
        job: JobSpec | None = None,
    ) -> None:
        """Let an event count for the decisions that follow; it becomes durable, with its children and posts, with the
        next flush. The job that a ``JobStarted`` names is started after that. Keeps: children-once, jobs-told-once."""
        if isinstance(event, JobStarted):
            assert job is not None, event
            self._jobs[event.job_id] = job
        advance(self.state, Entry(self.state.last_seq + 1, self._held.claim.epoch, 0, event, ""))
        self._noted.append(event)
        self._noted_chars += _chars(event)
        self._children += children
        self._posts += posts

    def take(self, items: Sequence[UnreadItem]) -> None:
        """These items are no longer unread: an entry that is noted takes them."""
        numbers = {item.number for item in items}
        self.unread = [item for item in self.unread if item.number not in numbers]

    def flush(self, next: Next, *more: Event, posts: Sequence[Post] = (), inbox_seen: int | None = None) -> Appended:
        """Commit what was noted, and more entries that only count once they are durable."""
        commit = Commit(
            (*self._noted, *more),
            next,
            self._seen(next) if inbox_seen is None else inbox_seen,
            tuple(self._children),
            (*self._posts, *posts),
        )
        noted, self._noted, self._noted_chars = self._noted, [], 0
        self._children, self._posts = [], []
        appended = self._held.append(self._durable_seq, commit)
        self._durable_seq = appended.last_seq
        for event in sorted(noted, key=lambda event: not isinstance(event, JobStarted)):
            self._durable(event, appended.at)  # nothing stands between the record of a job and its start
        return appended

    def _durable(self, event: Event, at: int) -> None:
        match event:
            case StepAttemptAbandoned():
                self._on_seal(event.reason, event.abandoned_from_seq)
            case ToolStarted() if event.call_id in self.state.calls:
                self.state.calls[event.call_id].started_at = at  # the store's time of the entry
            case JobStarted() if event.job_id in self._jobs and not self._held.stopping:
                assert self._held.jobs is not None, event
                self._held.check()
                self._held.jobs.start(event.job_id, self._jobs.pop(event.job_id))
            case JobEnded() if self._held.jobs is not None:
                self._held.jobs.recorded([event.job_id])
            case _:
                pass

    # -- jobs ----------------------------------------------------------------------------------------------

    def note_jobs(self) -> bool:
        """Note what became of the task's jobs: those of this claim that have ended, and those that a claim before it
        left behind, which are lost; whether there was any. What a tool ran beside the log, and did not wait for, is
        forgotten once it has ended: nobody is told of it, and it must not wake the task again and again. Keeps:
        jobs-told-once."""
        jobs, told = self._held.jobs, False
        known = jobs.known() if jobs is not None else frozenset()
        ended = {} if jobs is None else {end.job_id: end for end in jobs.ended()}
        noted = {event.job_id for event in self._noted if isinstance(event, JobEnded)}
        if jobs is not None and (unknown := ended.keys() - self.state.jobs.keys() - noted):
            jobs.recorded(sorted(unknown))
        for job in list(self.state.jobs):
            if job in ended:
                self.note(_job_ended(ended[job]))
            elif job not in known and job not in self._jobs:
                self.note(JobLost(job))
            else:
                continue
            told = True
        return told

    def stop_jobs(self) -> None:
        """End all jobs of the task, and note it: nothing outlives its task, or the claim that owns it.

        Raises:
            ClaimLost: something would not end; it dies with the lease.
        """
        for job in list(self._jobs):  # asked for, and never started
            del self._jobs[job]
            self.note(JobEnded(job, "not_started", detail="its task ended first"))
        jobs = self._held.jobs
        if jobs is not None and jobs.live() and not jobs.stop():
            self._held.cut("a background job would not end")
            self._held.check()
        self.note_jobs()

    def _seen(self, next: Next) -> int:
        """The newest item this decision took into account. An unread one that would end the wait at once is not of
        them, though it was read (an open turn is called again before it is taken): the row becomes pending, and
        the next claim is woken by it. Keeps: wake-once."""
        if isinstance(next, Suspend):
            ready = [item.number for item in self.unread if matches_wake(next.wake_on, item.item)]
            return min([self._inbox_seen, *(number - 1 for number in ready)])
        return self._inbox_seen


def _job_ended(end: JobEnd) -> JobEnded:
    """The entry of a job's end, with the newest of its output."""
    whole = codec.escape_text(end.output.text)
    text = whole[-OUTPUT_CHARS_TOLD:]
    left_out = end.output.start + len(whole[:-OUTPUT_CHARS_TOLD].encode())  # a byte that was replaced counts as three
    left_out = min(left_out, end.output.total - len(text))
    if left_out > 0:
        text = texts.JOB_OUTPUT_CUT.format(bytes=left_out) + text
    return JobEnded(end.job_id, end.how, end.exit_code, end.signal, text, codec.escape_text(end.detail))


def _chars(event: Event) -> int:
    """About how much text an event holds."""
    match event:
        case (
            MessageTaken(message=HumanResponseReceived(text=text)) | ToolFinished(output=text) | ModelReplied(text=text)
        ):
            return len(text)
        case ToolStarted(input=input) | ApprovalAsked(input=input) if input is not UNSET:
            return len(codec.canonical(input))
        case _:
            return 0


def is_message(item: UnreadItem) -> bool:
    """Something that was said to the task, or to its turn."""
    match item.item:
        case HumanResponseReceived(handle=handle):
            return handle == NEXT_GOAL and not timed_out(item.item)
        case ControlReceived():
            return True
        case _:
            return False


def is_left_over(state: TaskState, item: UnreadItem) -> bool:
    """A timer, the end of a wait's time, or a child's result that nothing waits for any more."""
    comes_once = isinstance(item.item, TimerFired | SubtaskCompleted) or timed_out(item.item)
    return comes_once and not state.awaits(item.item)
