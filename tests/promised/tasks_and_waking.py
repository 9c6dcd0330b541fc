"""The sentences of the document "Tasks and waking"."""

from __future__ import annotations

from typing import Final

from tests.promised.sentences import Sections, Sentence

_TASK: Final = (
    Sentence("task/only-unit", "A Task is one run of an agent and the only unit of work Noeta has."),
    Sentence(
        "task/chat-job-subagent",
        "A chat that lasts for weeks, a nightly job and a delegated subagent are all Tasks.",
    ),
    Sentence(
        "task/waits",
        "When a Task has to wait — for a person, a timer, a subtask or an outside event — it suspends, holds nothing "
        "while it waits, and is woken exactly once when the thing it waits for arrives.",
    ),
)

_GUARANTEES: Final = (
    Sentence(
        "guarantee/one-status",
        "One status for all waiting. Every kind of wait is suspended plus a typed wake condition, so there is one "
        "resume path, not four.",
    ),
    Sentence(
        "guarantee/waiting-is-free",
        "Waiting is free. A suspended Task holds no thread, connection or process memory.",
    ),
    Sentence("guarantee/for-months", "It can wait for seconds or months."),
    Sentence(
        "guarantee/exactly-once",
        "Exactly-once durable wake. A matched wake survives worker crashes and is consumed exactly once.",
    ),
    Sentence("guarantee/lease-while-it-runs", "Single writer. A worker holds a lease on a Task while it runs;"),
    Sentence("guarantee/reclaimed-cannot-write", "a worker whose lease was reclaimed cannot write."),
)

_STATUSES: Final = (
    Sentence("status/pending", "created, or woken, and waiting for a worker", "pending"),
    Sentence("status/running", "a worker holds the lease and the Engine is advancing it", "running"),
    Sentence("status/suspended", "waiting on a wake condition recorded in wake_on", "suspended"),
    Sentence("status/terminal", "ended with TaskCompleted, TaskFailed or TaskCancelled", "terminal"),
    Sentence(
        "status/conversation",
        "A multi-turn conversation is one Task: each turn is wake → a few steps → suspend, and between turns the Task "
        "rests at suspended waiting for the next human message;",
    ),
    Sentence(
        "status/one-shot-completes",
        "only query() (and any Client built with multi_turn=False) ends with TaskCompleted.",
        later="`query()` and `Client`; a task with `interactive=False` is what they will create",
    ),
    Sentence("status/any-can-be-cancelled", "Any status that has not ended can be cancelled."),
    Sentence(
        "status/no-session",
        'There is no separate session or workflow object; a host that wants a user-facing "session" builds it on top.',
    ),
)

_OBSERVER: Final = (
    "nothing observes: a child's result is posted to its parent in the very append of the child's ending, so that "
    "there is no observer to die between the two"
)

_WAITS: Final = (
    Sentence(
        "wait/same-dataclass", "The condition a Task stores and the event that satisfies it are the same dataclass."
    ),
    Sentence("wait/only-identity", "Only the identity fields decide a match; payloads ride along."),
    Sentence(
        "wait/subtask-delivered", "ChildLifecycleObserver", "SubtaskCompleted, delivered by", superseded=_OBSERVER
    ),
    Sentence("wait/subtask-matches", "subtask_id", "SubtaskCompleted, matches on"),
    Sentence(
        "wait/group-delivered", "ChildLifecycleObserver", "SubtaskGroupCompleted, delivered by", superseded=_OBSERVER
    ),
    Sentence("wait/group-matches", "group_id", "SubtaskGroupCompleted, matches on"),
    Sentence("wait/human-delivered", "your human-facing channel", "HumanResponseReceived, delivered by"),
    Sentence("wait/human-matches", "handle", "HumanResponseReceived, matches on"),
    Sentence("wait/timer-delivered", "the worker's timer poll", "TimerFired, delivered by"),
    Sentence("wait/timer-matches", "event.fire_at >= condition.fire_at", "TimerFired, matches on"),
    Sentence("wait/event-delivered", "any external source", "ExternalEvent, delivered by"),
    Sentence("wait/event-matches", "event_kind", "ExternalEvent, matches on"),
    Sentence(
        "wait/one-rule",
        "matches_wake is the single implementation every dispatcher uses, so storage backends cannot disagree about "
        "what matches.",
    ),
)

_WAKE: Final = (
    Sentence(
        "wake/arrives",
        "A wake event arrives through Dispatcher.wake (a timer through Dispatcher.fire_due_timers).",
        "step 1",
    ),
    Sentence(
        "wake/match-is-stored",
        "If it matches, the dispatcher stores the match and puts the Task back on the ready queue.",
        "step 1",
    ),
    Sentence(
        "wake/lease-carries-it", "The next worker to lease the Task receives the wake on Lease.wake_event.", "step 2"
    ),
    Sentence("wake/recorded", "The Engine writes a TaskWoken event.", "step 3"),
    Sentence("wake/commit-point", "That write is the commit point.", "step 3"),
    Sentence(
        "wake/release-consumes",
        "Only then does the worker release with the wake marked consumed.",
        "step 4",
        superseded="`TaskWoken` takes its item in the same append, so that steps 3 and 4 cannot be split",
    ),
    Sentence("wake/survives-a-death", "If a worker dies between steps 2 and 4, the stored match is still there;"),
    Sentence(
        "wake/stale-sweep",
        "the stale sweep requeues the Task",
        superseded="the sweep does, and so does a claim that meets a lapsed lease: nothing waits for a sweeper",
    ),
    Sentence("wake/delivered-again", "and the next lease delivers the same wake."),
    Sentence(
        "wake/not-written-twice",
        "If TaskWoken had already landed, the worker sees it and does not write a second one.",
    ),
    Sentence("wake/exactly-once", "At-least-once delivery plus idempotent consumption gives exactly-once."),
    Sentence(
        "wake/timers-need-nobody",
        "Timers need no outside producer: each worker calls Dispatcher.fire_due_timers(now=…) on an interval, next to "
        "the stale sweep.",
    ),
    Sentence(
        "wake/still-waiting",
        "A suspended Task with no queued wake is not an error — it is simply still waiting.",
    ),
)

_SCALE: Final = (
    Sentence("scale/one-host", "every backend (in-memory, SQLite, Postgres)", "One host, a pool of workers"),
    Sentence("scale/several-hosts", "Postgres only;", "Several hosts sharing one store"),
    Sentence(
        "scale/check-inside-the-insert",
        "the lease check runs inside the insert transaction against the database clock",
        "Several hosts sharing one store",
    ),
    Sentence(
        "scale/two-processes-on-sqlite",
        "Pointing two host processes at one SQLite file is not supported.",
        superseded="several processes of one machine may share a file: every write is one transaction that checks "
        "inside itself; a second machine is refused in the documents",
    ),
)

_SUBTASKS: Final = (
    Sentence(
        "subtask/ordinary-task",
        "A subtask is an ordinary Task with its own log, related to its parent only by parent_task_id;",
    ),
    Sentence("subtask/depth-capped", "subtask_depth is capped by the budget so delegation cannot recurse forever."),
    Sentence(
        "subtask/parent-suspends",
        "The parent suspends on SubtaskCompleted (or SubtaskGroupCompleted for a fan-out)",
    ),
    Sentence("subtask/result-is-the-wake", "and each child's result comes back as the wake."),
    Sentence("subtask/recovers-alone", "Every node recovers on its own."),
    Sentence(
        "subtask/root-owns",
        "The root of the tree, root_task_id, owns anything that outlives a step: background shells, background "
        "subagents, a sandbox container.",
        superseded="of background subagents it is kept as printed; a background shell is a process of one machine and "
        "belongs to the claim that started it (ADR 0011); sandbox containers are not there",
    ),
)

_MEANS: Final = (
    Sentence("means/nothing-held-open", "Ask a human, wait on a timer or delegate without holding anything open;"),
    Sentence("means/another-machine", "the answer can arrive days later on a different machine."),
    Sentence(
        "means/worker-pool",
        "Run a WorkerLoop pool so someone leases, sweeps and fires timers",
    ),
    Sentence(
        "means/postgres-for-hosts",
        "Use Postgres as soon as more than one host process shares the work.",
        superseded="from the second machine on: several processes of one machine may share one SQLite file",
    ),
)

SECTIONS: Final[Sections] = (
    ("Tasks and waking", _TASK),
    ("What it guarantees", _GUARANTEES),
    ("The four statuses", _STATUSES),
    ("What a Task can wait for", _WAITS),
    ("How a wake is delivered", _WAKE),
    ("Scale", _SCALE),
    ("Subtasks", _SUBTASKS),
    ("What this means for you", _MEANS),
)
"""The document's headings, and what stands below each."""
