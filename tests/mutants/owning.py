"""Eight bugs of owners: of kept claims, of giving a claim back, and of a cron table between two claims."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import MEMORY, MEMORY_CONTRACT, Lines, Mutant, Quick

_KEPT: Final = "tests/unit/runtime/test_kept_claims.py::"
_CRON: Final = "tests/unit/runtime/test_cron_turns.py::"
_KEEPER: Final = "noeta.core.runner.lease"
_FOLD: Final = "noeta.core.fold"
_HEARD: Final = "heard = renewal.timer_due or renewal.ordered or renewal.inbox_seq > held.inbox_seq"
_TIME_LIMIT: Final = "state.crons_due = due_at(event)  # a rest between turns has no other time limit"
_TAKEN_AS_FIRED: Final = (
    "for cron in state.crons.values():\n            cron.last = max(cron.last, due_at(event) or 0.0)"
)

OWNING: Final = (
    Mutant(
        "kept-claimed-on-its-timer",
        "a kept task whose timer is due may be claimed by anybody, before its owner's lease is over",
        "one-writer",
        "store",
        sql=(
            (
                "t.queue = q.queue AND t.worker IS NULL AND t.ready_at <= o_now",
                "t.queue = q.queue AND (t.worker IS NULL OR t.kept) AND t.ready_at <= o_now",
            ),
            (
                "CONTINUE WHEN v_row.worker IS NOT NULL OR v_row.ready_at IS NULL OR v_row.ready_at > o_now;",
                (
                    "CONTINUE WHEN (v_row.worker IS NOT NULL AND NOT v_row.kept) OR v_row.ready_at IS NULL"
                    " OR v_row.ready_at > o_now;"
                ),
            ),
            (
                "SET status = 'running', epoch = t.epoch + 1, worker = p_worker, token = p_token,  -- Keeps: epochs",
                (
                    "SET status = 'running', kept = false, epoch = t.epoch + 1, worker = p_worker, token = p_token,"
                    "  -- Keeps: epochs"
                ),
            ),
        ),
        python=(
            Lines(
                MEMORY,
                "MemoryStore._due",
                (
                    (
                        "at := claimable_at(task.row)",
                        ("at := task.row.ready_at if rules.kept_timer_due(task.row, now) else claimable_at(task.row)"),
                    ),
                ),
            ),
            Lines(
                MEMORY,
                "MemoryStore.claim",
                (
                    (
                        "if cause is Shape.SUSPENDED:",
                        "if cause is Shape.SUSPENDED or rules.kept_timer_due(task.row, now):",
                    ),
                ),
            ),
        ),
        laws=("jobs-told-once",),
        quick=Quick(
            race="kept, timer due",
            tests=(MEMORY_CONTRACT + "test_a_kept_wait_stays_with_its_claim",),
            sim=("kept-timer", "freeze"),
        ),
        extra=True,
    ),
    Mutant(
        "owner-deaf-to-items",
        "the owner of a kept task does not hear with its renewals that something came",
        "never-stuck",
        "runner",
        python=(Lines(_KEEPER, "LeaseKeeper._renewed", ((_HEARD, "heard = renewal.timer_due or renewal.ordered"),)),),
        laws=("comes-to-an-end", "script-finished"),
        quick=Quick(
            tests=(_KEPT + "test_a_message_is_heard_with_the_beat_and_answered_under_the_same_epoch",),
            sim=("kept-question", "kill"),
        ),
        extra=True,
    ),
    Mutant(
        "owner-forgets-its-timer",
        "the owner of a kept task neither looks for its timer nor heeds the renewal that says that it is due",
        "never-stuck",
        "runner",
        python=(
            Lines(
                _KEEPER,
                "LeaseKeeper._renewed",
                ((_HEARD, "heard = renewal.ordered or renewal.inbox_seq > held.inbox_seq"),),
            ),
            Lines(
                "noeta.runtime.kept",
                "_due",
                (("    return None if at is None else micros(at)", "    return None"),),
            ),
        ),
        laws=("comes-to-an-end", "script-finished"),
        quick=Quick(tests=(_KEPT + "test_its_owner_fires_the_timer_of_a_kept_task",), sim=("kept-timer", "kill")),
        extra=True,
    ),
    Mutant(
        "kept-released-with-its-jobs",
        "a worker that stops gives its kept claims back, and its jobs still run",
        "jobs-told-once",
        "worker",
        python=(
            Lines(
                "noeta.runtime.giving_back",
                "give_back",
                (("{lease.held.key: process.stop_jobs(lease.held)}", "{lease.held.key: True}"),),
            ),
        ),
        quick=Quick(
            tests=("tests/unit/runtime/test_ending_jobs.py::test_the_jobs_of_all_kept_claims_are_stopped_at_once",),
            sim=("kept-timer", "terminate"),
        ),
        extra=True,
    ),
    Mutant(
        "released-before-the-tool-stopped",
        "a worker that is told to stop gives its task back at once, while a tool of it still runs",
        "effect-at-most-once",
        "worker",
        python=(
            Lines(
                "noeta.runtime.worker",
                "WorkerLoop._hear_stop",
                (
                    (
                        "        self._on_stop(lease)\n",
                        "        self._on_stop(lease)\n        self._give_back(lease)\n",
                    ),
                ),
            ),
        ),
        quick=Quick(tests=("tests/unit/runtime/test_shutdown.py::test_a_cancelled_step_gives_its_task_back_at_once",)),
        extra=True,
    ),
    Mutant(
        "cron-from-memory",
        "when a cron entry last fired is known to whom it fired for, and is not read from the log again",
        "timers-once",
        "runner",
        python=(
            Lines(
                _FOLD,
                "_apply",
                (
                    (
                        "                cron.last = event.due_at\n",
                        "                cron.last = cron.last if at else event.due_at\n",
                    ),
                ),
            ),
        ),
        quick=Quick(tests=(_CRON + "test_last_fired_is_in_the_log_and_not_in_memory",), sim=("cron", "kill")),
        extra=True,
    ),
    Mutant(
        "cron-catches-up-one-by-one",
        "after an outage a cron entry fires for each occurrence that was missed, from the oldest on",
        "timers-once",
        "runner",
        python=(
            Lines(
                "noeta.core.runner.crontab",
                "due",
                (
                    (
                        "        occurrence = cron.due(table, one.last, now)\n",
                        (
                            "        at = cron.next_after(table, one.last)\n"
                            "        occurrence = None if at is None or at > now else cron.Due(at, 0)\n"
                        ),
                    ),
                ),
            ),
        ),
        quick=Quick(
            tests=(_CRON + "test_an_outage_is_caught_up_with_once_and_the_skipped_ones_are_counted",),
            sim=("cron-outage", "outage"),
        ),
        extra=True,
    ),
    Mutant(
        "cron-occurrence-lost",
        "what a cron table woke its task for counts as fired, and never fires",
        "timers-once",
        "runner",
        python=(Lines(_FOLD, "_wake", ((_TIME_LIMIT, _TAKEN_AS_FIRED),)),),
        laws=("script-finished",),
        quick=Quick(
            tests=(_CRON + "test_an_occurrence_begins_a_turn_with_its_prompt_and_the_task_rests_until_the_next",),
            sim=("cron", "kill"),
        ),
        extra=True,
    ),
)
