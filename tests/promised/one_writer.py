"""The sentences of the document "One writer and crash recovery" about claims, the fence and lost claims."""

from __future__ import annotations

from typing import Final

from tests.promised.sentences import Sections, Sentence

_INTRODUCTION: Final = (
    Sentence(
        "any/worker-any-machine",
        "A task can be run by any worker on any machine, and workers die, freeze and lose their network.",
    ),
)

_CLAIMS: Final = (
    Sentence("writer/claims-first", "Before running a task, a worker claims it from the store:"),
    Sentence(
        "writer/claim",
        "claim(worker, queues, lease_seconds) takes one claimable task, sets it running, names the worker as owner, "
        "adds one to the task's epoch, and sets a lease (lease_until).",
    ),
    Sentence("writer/renew", "renew(claim, lease_seconds) extends the lease."),
    Sentence(
        "writer/keeper",
        "The runner's lease keeper does it every third of the lease (default lease 30 s; noeta worker --lease).",
    ),
    Sentence(
        "writer/release",
        "release(claim) gives the claim back without ending the task (a worker shutting down): a running task becomes "
        "ready.",
    ),
    Sentence(
        "writer/claimable",
        "A task is claimable when it is ready (and due), waiting with a due ready_at,",
    ),
    Sentence(
        "writer/claimable-lapsed",
        "or running or kept with a lease that has run out (noeta/core/store.py, Store.claim).",
    ),
    Sentence(
        "writer/two-conditions",
        "Every append then carries two conditions, checked by the store in the same transaction as the write:",
    ),
    Sentence(
        "writer/epoch-and-lease",
        "the claim's epoch is still the task's owner_epoch, and the claim still has a lease;",
        "condition 1",
    ),
    Sentence(
        "writer/expected-seq",
        "the log's last seq is the expected_seq the runner names (the last one it saw).",
        "condition 2",
    ),
    Sentence("writer/refused-writes-nothing", "If either fails, the store raises Conflict and writes nothing."),
    Sentence("writer/runner-stops", "The runner stops at once, without further writes."),
    Sentence(
        "writer/lease-is-timing",
        "This is why leases are only about timing. A lease decides when a silent worker's task may be taken by someone "
        "else;",
    ),
    Sentence(
        "writer/wrong-guess",
        "it is a guess, and a wrong guess (a worker that was only slow) costs a retry, never a double write.",
    ),
    Sentence(
        "writer/fence",
        "The fence is the epoch.",
    ),
    Sentence(
        "writer/frozen",
        "A worker that froze (a long GC pause, SIGSTOP, a network partition) and wakes up after another worker has "
        "claimed the task holds an old epoch; its first append is refused, and it stops.",
    ),
    Sentence(
        "writer/enforced",
        '"One writer" is a property the store enforces, not a convention a frozen process could break (ADR-001).',
    ),
)

_STORES: Final = (
    Sentence(
        "writer/pg-locks-first",
        "An append first locks the task row (SELECT ... FOR UPDATE), then checks epoch and seq;",
        "Postgres",
    ),
    Sentence(
        "writer/pg-others-wait",
        "any other append, claim, renew, release or post on that task waits for the lock and then sees the result.",
        "Postgres",
        superseded="an append, a release and a post wait for the row; a claim, a sweep and a renewal wait for no row: "
        "a claim passes it by, and a renewal is answered `busy` and asked again, so that one locked row costs one "
        "claim",
    ),
    Sentence(
        "writer/pg-skip-locked",
        "A claim picks a row with FOR UPDATE SKIP LOCKED, so two workers never take the same task and neither waits "
        "for the other,",
        "Postgres",
    ),
    Sentence(
        "writer/pg-claim-index",
        "and the claim index covers only rows a claim can take, so idle waiting tasks are never scanned.",
        "Postgres",
    ),
    Sentence(
        "writer/pg-clock",
        "Lease times use the database's clock, so workers with skewed clocks agree on who holds a lease.",
        "Postgres",
    ),
    Sentence(
        "writer/pg-deadlock",
        "A deadlock (an append posting to a task that is posting back) aborts one transaction, which is run again with "
        "its checks.",
        "Postgres",
    ),
    Sentence(
        "writer/sqlite-immediate",
        "Every write is one BEGIN IMMEDIATE transaction with the checks inside, so several processes on one machine "
        "can share the file.",
        "sqlite",
    ),
    Sentence(
        "writer/contract",
        "The store contract tests (noeta/testing/store_contract.py) hold any store to these rules:",
    ),
    Sentence("writer/contract-racing", "two racing runners never both append,"),
    Sentence("writer/contract-lapsed", "a lapsed lease is reclaimed and the old owner loses,"),
    Sentence("writer/contract-kept", "a kept wait stays with its claim."),
)

_LOST: Final = (
    Sentence(
        "lost/renewal-refused",
        "Marks the claim lost and cancels the step in flight; the next write would fail anyway.",
        "A renewal returns nothing (the claim was taken)",
    ),
    Sentence(
        "lost/renewal-failing",
        "Retries until the lease would have run out by its own clock, then gives the task up the same way.",
        "A renewal keeps failing (the store is unreachable)",
    ),
    Sentence("lost/conflict", "Stops with no further writes.", "An append raises Conflict"),
    Sentence(
        "lost/unreachable",
        "Stops. The lease runs out and the task is claimed again once the store is back.",
        "The store is unreachable during a step (StoreUnavailable)",
    ),
    Sentence(
        "lost/unknown",
        "Never retried blindly: the runner stops as if its claim were lost, and whoever runs the task next reads the "
        "log to see what landed.",
        "The connection drops while COMMIT is in flight (CommitUnknown)",
    ),
    Sentence(
        "lost/unknown-claim",
        "For a claim, the worker looks for a task the store says it owns and adopts it, rather than leaving it until "
        "the lease runs out.",
        "The connection drops while COMMIT is in flight (CommitUnknown)",
    ),
    Sentence(
        "lost/shutdown-releases",
        "release hands each running task back as ready at once;",
        "The worker shuts down",
    ),
    Sentence(
        "lost/shutdown-kept",
        "tasks waiting with a kept claim stay waiting (kept claims).",
        "The worker shuts down",
        superseded="the log goes on resting where it rested, and the row becomes `pending`: claimable at once, so that "
        "whoever claims it finds its jobs lost and says so, without waiting for the lease (ADR 0011)",
    ),
    Sentence(
        "lost/kept-too",
        "A runner that loses its claim also loses whatever it kept for the task: its kept claims are marked lost, so a "
        "background job it owned is stopped.",
    ),
)

SECTIONS: Final[Sections] = (
    ("One writer and crash recovery", _INTRODUCTION),
    ("One writer", (*_CLAIMS, *_STORES)),
    ("When a worker loses its claim", _LOST),
)
"""The document's headings, and what stands below each; crash_recovery.py goes on."""
