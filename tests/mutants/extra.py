"""Nine more: wakes, endings and leases."""

from __future__ import annotations

from typing import Final

from tests.mutants import bugs
from tests.mutants.mutant import MEMORY, MEMORY_CONTRACT, SIM_ONLY, Lines, Mutant, Quick, Swap

EXTRA: Final = (
    Mutant(
        "post-after-end",
        "a post to a task that has ended is stored",
        "terminal-is-final",
        "store",
        sql=(
            (
                "    IF v_row.status = 'terminal' THEN\n        o_outcome := 'ended';",
                "    IF false THEN\n        o_outcome := 'ended';",
            ),
        ),
        python=(Lines(MEMORY, "MemoryStore._post", (("if row.status is Status.TERMINAL:", "if False:"),)),),
        laws=("taken-once", "row-agrees"),
        extra=True,
        quick=Quick(
            tests=(MEMORY_CONTRACT + "test_a_repeated_key_is_a_repeat_also_after_the_end",), sim=("noted-late", "lapse")
        ),
    ),
    Mutant(
        "terminal-not-final",
        "a post to a task that has ended makes it pending again",
        "terminal-is-final",
        "store",
        sql=(
            (
                "    IF v_row.status = 'terminal' THEN\n        o_outcome := 'ended';",
                (
                    "    IF v_row.status = 'terminal' THEN\n"
                    "        UPDATE {schema}.task t SET status = 'pending', ready_at = v_now WHERE t.id = p_task_id;\n"
                    "        o_outcome := 'ended';"
                ),
            ),
        ),
        python=(
            Lines(
                MEMORY,
                "MemoryStore._post",
                (
                    (
                        "        if row.status is Status.TERMINAL:\n",
                        (
                            "        if row.status is Status.TERMINAL:\n"
                            "            task.row = replace(row, status=Status.PENDING, ready_at=now)\n"
                        ),
                    ),
                ),
            ),
        ),
        laws=("row-agrees", "never-stuck"),
        extra=True,
        quick=Quick(tests=(MEMORY_CONTRACT + "test_no_verb_leaves_the_terminal_status",), sim=("noted-late", "lapse")),
    ),
    Mutant(
        "lost-wake",
        "a suspending commit does not compare the inbox with what its decision saw",
        "wake-once",
        "store",
        sql=(
            (
                "o_moved := p_inbox_seen IS NOT NULL AND v_row.inbox_seq > p_inbox_seen;",
                "o_moved := false;",
            ),
        ),
        python=(
            Lines(
                MEMORY,
                "MemoryStore._apply",
                (("moved = write.inbox_seen is not None and row.inbox_seq > write.inbox_seen", "moved = False"),),
            ),
        ),
        laws=("never-stuck", "script-finished", "row-agrees", "taken-once"),
        extra=True,
        quick=Quick(
            tests=(MEMORY_CONTRACT + "test_a_wake_between_the_look_and_the_suspension_is_not_lost",),
            sim=("interactive", "kill"),
        ),
    ),
    Mutant(
        "early-wake-lost",
        "an item for a running task is answered `stored` and dropped",
        "taken-once",
        "store",
        sql=(
            (
                "    o_outcome := 'stored';\n    o_number := v_row.inbox_seq + 1;\n",
                (
                    "    o_outcome := 'stored';\n    o_number := v_row.inbox_seq + 1;\n"
                    "    IF v_row.status = 'running' THEN\n        RETURN;\n    END IF;\n"
                ),
            ),
        ),
        python=(
            Lines(
                MEMORY,
                "MemoryStore._post",
                (
                    (
                        "        self._put_item(task, item, row.inbox_seq + 1, now)\n",
                        (
                            "        if row.status is Status.RUNNING:\n"
                            '            return "stored"\n'
                            "        self._put_item(task, item, row.inbox_seq + 1, now)\n"
                        ),
                    ),
                ),
            ),
        ),
        laws=("wake-once", "never-stuck", "script-finished"),
        extra=True,
        quick=Quick(tests=(MEMORY_CONTRACT + "test_a_wake_before_the_wait_is_not_lost",), sim=("interactive", "kill")),
    ),
    Mutant(
        "append-as-one-cte",
        "an append locks its row and reads the inbox in one statement, whose snapshot is older than the lock",
        "wake-once",
        "store",
        sql=(
            (
                (
                    "ANY (p_post_task || p_task_id) ORDER BY t.id FOR UPDATE;\n    END IF;\n"
                    "    SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_task_id FOR UPDATE;\n"
                ),
                (
                    "ANY (p_post_task || p_task_id) ORDER BY t.id FOR UPDATE;\n    END IF;\n"
                    "    WITH locked AS MATERIALIZED (\n"
                    "        SELECT t.* FROM {schema}.task t WHERE t.id = p_task_id FOR UPDATE\n"
                    "    ), inbox AS MATERIALIZED (\n"
                    "        SELECT coalesce(max(i.number), 0) AS newest\n"
                    "        FROM {schema}.item i WHERE i.task_id = p_task_id\n"
                    "    )\n"
                    "    SELECT l.id, l.queue, l.status, l.kept, l.epoch, l.worker, l.token, l.lease_until,\n"
                    "        l.lease_check_at, l.ready_at, l.wake_on, l.wake_key, l.wake_missing, i.newest,\n"
                    "        l.last_seq, l.takeovers, l.fail_attempts, l.parent, l.group_id, l.created_at,\n"
                    "        l.content_hash\n"
                    "    INTO v_row FROM locked l, inbox i;\n"
                ),
            ),
        ),
        laws=("never-stuck", "script-finished", "row-agrees", "taken-once"),
        quick=Quick(race="running"),
        extra=True,
    ),
    Mutant(
        "epoch-not-raised",
        "a claim does not raise the epoch",
        "epochs-rise",
        "store",
        sql=(
            ("epoch = t.epoch + 1", "epoch = t.epoch"),
            ("v_row.epoch + 1, o_now + p_lease", "v_row.epoch, o_now + p_lease"),
        ),
        python=(Swap("noeta.core.task", "TRANSITIONS", bugs.transitions_that_keep_the_epoch),),
        laws=("one-writer",),
        extra=True,
        quick=Quick(sim=("plain", "kill")),
    ),
    Mutant(
        "late-renewal",
        "a renewal after the lease is over revives it",
        "one-writer",
        "store",
        sql=(
            (
                "OR v_row.lease_until IS NULL OR v_row.lease_until <= o_now\n",
                "OR v_row.lease_until IS NULL\n",
            ),
        ),
        python=(
            Lines(
                MEMORY,
                "MemoryStore._renew",
                (("not _holds(task.row, claim, now)", "not _holds(task.row, claim, 0)"),),
            ),
        ),
        extra=True,
        quick=Quick(
            tests=(MEMORY_CONTRACT + "test_a_lease_that_is_over_is_lost_even_if_nobody_took_the_task",),
            sim=("plain", "lapse"),
            race="lapsed",
        ),
    ),
    Mutant(
        "token-not-checked",
        "an append compares the epoch and not the claim token",
        "one-writer",
        "store",
        sql=(
            (
                (
                    "    IF v_row.epoch <> p_epoch OR v_row.token IS DISTINCT FROM p_token\n"
                    "        OR v_row.lease_until IS NULL OR v_row.lease_until <= o_at\n"
                ),
                "    IF v_row.epoch <> p_epoch\n        OR v_row.lease_until IS NULL OR v_row.lease_until <= o_at\n",
            ),
        ),
        python=(Lines(MEMORY, "_holds", (("row.token == claim.token", "True"),)),),
        extra=True,
        quick=Quick(tests=(MEMORY_CONTRACT + "test_another_token_or_epoch_is_another_owner",)),
    ),
    Mutant(
        "model-attempts-unbounded",
        "an interrupted model call is made again for ever",
        "bounded",
        "runner",
        python=(
            Lines(
                "noeta.core.actions",
                "_within_turn",
                (("if state.model_attempts >= texts.MAX_MODEL_ATTEMPTS:", "if False:"),),
            ),
        ),
        laws=("script-finished", "never-stuck", SIM_ONLY),
        extra=True,
        quick=Quick(sim=("killer-model", "say")),
    ),
)
