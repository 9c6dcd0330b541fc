"""The documents that have a page."""

from __future__ import annotations

from typing import Final

from tests.promised import crash_recovery, one_writer, tasks_and_waking, worker_loop
from tests.promised.sentences import Document

DOCUMENTS: Final = (
    Document(
        "tasks-and-waking",
        "Tasks and waking",
        "says what a task is and how it waits",
        ("tasks_and_waking.py",),
        tasks_and_waking.SECTIONS,
    ),
    Document(
        "one-writer-and-crash-recovery",
        "One writer and crash recovery",
        "says how only one worker ever writes to a task, and what the next one does with whatever the last one left "
        'half done; this page covers it up to, and without, "Plugin hooks and their records". Its `ready` and '
        '`waiting` are the statuses `pending` and `suspended` of "Tasks and waking". Of an outcome that nobody knows '
        'it says what `noeta worker` does; the loop of a host parks the task instead, as "WorkerLoop" says',
        ("one_writer.py", "crash_recovery.py"),
        (*one_writer.SECTIONS, *crash_recovery.SECTIONS),
    ),
    Document(
        "worker-loop",
        "WorkerLoop",
        "describes the loop of a worker; this page covers how it stops, what it does with errors, and what it answers "
        "and signals",
        ("worker_loop.py",),
        worker_loop.SECTIONS,
    ),
)

SENTENCES: Final = tuple(sentence for document in DOCUMENTS for sentence in document.sentences)
BY_KEY: Final = {sentence.key: sentence for sentence in SENTENCES}
