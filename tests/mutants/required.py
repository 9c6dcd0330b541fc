"""The fourteen bugs that the harness must catch."""

from __future__ import annotations

from typing import Final

from tests.mutants import bugs
from tests.mutants.mutant import MEMORY, MEMORY_CONTRACT, RUNNER, Lines, Mutant, Quick, Swap

FOURTEEN: Final = (
    Mutant(
        "no-epoch-check",
        "an append does not compare epoch and token with the row's",
        "one-writer",
        "store",
        sql=(
            (
                (
                    "    IF v_row.epoch <> p_epoch OR v_row.token IS DISTINCT FROM p_token\n"
                    "        OR v_row.lease_until IS NULL OR v_row.lease_until <= o_at\n"
                ),
                "    IF v_row.lease_until IS NULL OR v_row.lease_until <= o_at\n",
            ),
        ),
        python=(
            Lines(
                MEMORY,
                "MemoryStore._fenced",
                (
                    (
                        "if not _holds(task.row, claim, now):",
                        "if task.row.lease_until is None or task.row.lease_until <= now:",
                    ),
                ),
            ),
        ),
        laws=("acked-stays", "gapless-log", "epochs-rise", "calls-pair", "effect-at-most-once"),
        quick=Quick(tests=(MEMORY_CONTRACT + "test_the_old_owner_writes_nothing_after_a_takeover",)),
    ),
    Mutant(
        "no-expected-seq",
        "an append does not compare the end of the log with the one it saw",
        "one-writer",
        "store",
        sql=(("IF v_row.last_seq <> p_expected_seq THEN", "IF false THEN"),),
        python=(Lines(MEMORY, "MemoryStore._apply", (("if row.last_seq != write.expected_seq:", "if False:"),)),),
        laws=("gapless-log", "acked-stays", "calls-pair"),
        quick=Quick(tests=(MEMORY_CONTRACT + "test_of_two_appends_at_one_seq_one_lands",)),
    ),
    Mutant(
        "no-lease-check",
        "an append lands after its lease is over, if nobody took the task",
        "one-writer",
        "store",
        sql=(
            (
                "OR v_row.lease_until IS NULL OR v_row.lease_until <= o_at\n",
                "OR v_row.lease_until IS NULL\n",
            ),
        ),
        python=(
            Lines(
                MEMORY,
                "MemoryStore._fenced",
                (("if not _holds(task.row, claim, now):", "if not _holds(task.row, claim, 0):"),),
            ),
        ),
        quick=Quick(
            tests=(MEMORY_CONTRACT + "test_a_lease_that_is_over_writes_nothing_even_if_nobody_took_the_task",),
            sim=("plain", "lapse"),
            race="lapsed",
        ),
    ),
    Mutant(
        "lease-by-workers-clock",
        "the store's instant is the asking worker's wall clock",
        "one-writer",
        "store",
        sql=(
            (
                "RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;",
                (
                    "RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint\n"
                    "    + coalesce(nullif(current_setting('noeta.skew', true), ''), '0')::bigint;"
                ),
            ),
        ),
        python=(
            Lines(
                MEMORY,
                "MemoryStore.__init__",
                (("self._clock = clock or time.time", "self._clock = time.time"),),
            ),
            Swap("noeta.chaos.sim.server", "Server.__init__", bugs.server_with_its_own_clock),
            Swap("noeta.chaos.sim.server", "Server.serve", bugs.serve_by_the_workers_clock),
            Swap("noeta.chaos.instrument", "ChaosWorld.__init__", bugs.remember_the_world),
            Swap("noeta.backends.stores.pg_connection", "Connection.run", bugs.send_the_workers_clock),
        ),
        laws=("epochs-rise", "script-finished", "acked-stays", "never-stuck", "effect-at-most-once"),
        quick=Quick(tests=(MEMORY_CONTRACT + "test_a_lease_that_is_over_writes_nothing_even_if_nobody_took_the_task",)),
    ),
    Mutant(
        "renew-ignores-epoch",
        "a renewal does not compare epoch and token: a replaced worker keeps its successor's lease alive",
        "one-writer",
        "store",
        sql=(
            (
                (
                    "        IF v_row.epoch <> p_epochs[i] OR v_row.token IS DISTINCT FROM p_tokens[i]\n"
                    "            OR v_row.lease_until IS NULL OR v_row.lease_until <= o_now\n"
                ),
                "        IF v_row.lease_until IS NULL OR v_row.lease_until <= o_now\n",
            ),
        ),
        python=(
            Lines(
                MEMORY,
                "MemoryStore._renew",
                (
                    (
                        "if task is None or not _holds(task.row, claim, now):",
                        "if task is None or task.row.lease_until is None or task.row.lease_until <= now:",
                    ),
                ),
            ),
        ),
        laws=("epochs-rise",),
        quick=Quick(tests=(MEMORY_CONTRACT + "test_a_taken_over_claim_is_lost",), sim=("slow", "freeze")),
    ),
    Mutant(
        "claim-without-row-lock",
        "a claim reads a row and updates it, without the lock between: two claims may take one task",
        "epochs-rise",
        "store",
        sql=(
            (
                (
                    "                v_after_id := c.id;\n"
                    "                SELECT t.* INTO v_row FROM {schema}.task t"
                    " WHERE t.id = c.id FOR UPDATE SKIP LOCKED;\n"
                ),
                (
                    "                v_after_id := c.id;\n"
                    "                SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = c.id;\n"
                ),
            ),
        ),
        python=(
            Lines(
                MEMORY,
                "MemoryStore.claim",
                (
                    (
                        (
                            "        with self._lock:\n"
                            "            now = self._now()\n"
                            "            for task in self._due(queues, now):\n"
                        ),
                        (
                            "        due = self._due(queues, self._now())\n"
                            "        time.sleep(0.002)\n"
                            "        with self._lock:\n"
                            "            now = self._now()\n"
                            "            for task in due:\n"
                        ),
                    ),
                ),
            ),
        ),
        laws=("one-writer", "acked-stays"),
        quick=Quick(tests=(MEMORY_CONTRACT + "test_of_many_workers_one_takes_the_only_task",)),
    ),
    Mutant(
        "tool-started-after-tool",
        "`ToolStarted` is written after the tool ran, with its result",
        "effect-at-most-once",
        "runner",
        python=(
            Lines(
                RUNNER,
                "Runner._run_call",
                (
                    (
                        (
                            "        self._desk.note(ToolStarted(call.call.id, call.starts + 1, call.rewritten))\n"
                            "        self._desk.flush(Continue())\n"
                            "        self._record(calls.run_call(self._engine, self._world, self._held, self._state,"
                            " call))\n"
                        ),
                        (
                            "        call.starts += 1\n"
                            "        done = calls.run_call(self._engine, self._world, self._held, self._state, call)\n"
                            "        self._desk.note(ToolStarted(call.call.id, call.starts, call.rewritten))\n"
                            "        self._record(done)\n"
                        ),
                    ),
                ),
            ),
        ),
        laws=("script-finished",),
        quick=Quick(sim=("plain", "kill")),
    ),
    Mutant(
        "blind-rerun",
        "recovery starts every interrupted call again, whatever its tool says",
        "effect-at-most-once",
        "runner",
        python=(
            Lines(
                "noeta.core.runner.calls",
                "recover_call",
                (("    looks_up: object = tool\n", "    return Undecided.RUN_AGAIN\n    looks_up: object = tool\n"),),
            ),
        ),
        laws=("script-finished",),
        quick=Quick(sim=("plain", "kill")),
    ),
    Mutant(
        "item-taken-twice",
        "taking an item leaves it unread",
        "taken-once",
        "store",
        sql=(
            (
                "    IF cardinality(p_takes) > 0 THEN\n        UPDATE {schema}.item i SET taken_seq",
                "    IF false THEN\n        UPDATE {schema}.item i SET taken_seq",
            ),
        ),
        python=(
            Lines(
                MEMORY,
                "MemoryStore._apply",
                (
                    (
                        (
                            "            by_number[number].taken_seq = first_seq + index\n"
                            "            by_number[number].body = None  # the entry holds it now; the key stays\n"
                        ),
                        "            pass\n",
                    ),
                ),
            ),
        ),
        laws=("wake-once", "script-finished", "never-stuck"),
        quick=Quick(
            tests=(MEMORY_CONTRACT + "test_an_item_is_taken_by_the_append_that_records_it",), sim=("noted", "kill")
        ),
    ),
    Mutant(
        "dedupe-key-forgotten",
        "a dedupe key is forgotten when its item is taken",
        "taken-once",
        "store",
        sql=(
            (
                "UPDATE {schema}.item i SET taken_seq = v_row.last_seq + 1 + k.place, body = NULL\n",
                "UPDATE {schema}.item i SET taken_seq = v_row.last_seq + 1 + k.place, body = NULL, key = NULL\n",
            ),
        ),
        python=(
            Lines(
                MEMORY,
                "MemoryStore._apply",
                (
                    (
                        "            by_number[number].body = None  # the entry holds it now; the key stays\n",
                        (
                            "            by_number[number].body = None\n"
                            '            task.keys.pop(by_number[number].key or "", None)\n'
                        ),
                    ),
                ),
            ),
        ),
        laws=("script-finished", "wake-once"),
        quick=Quick(
            tests=(MEMORY_CONTRACT + "test_a_repeated_key_is_dropped_also_after_the_first_was_taken",),
            sim=("interactive", "lapse"),
        ),
    ),
    Mutant(
        "acknowledge-before-commit",
        "an append is answered at once and sent a little later",
        "acked-stays",
        "store",
        python=(
            Swap(MEMORY, "MemoryStore.append", bugs.buffered_append),
            Swap(MEMORY, "MemoryStore.claim", bugs.after_buffered_appends),
            Swap(MEMORY, "MemoryStore.renew", bugs.after_buffered_appends),
            Swap(MEMORY, "MemoryStore.release", bugs.after_buffered_appends),
            Swap("noeta.backends.stores.postgres", "PostgresStore.append", bugs.append_acknowledged_first),
        ),
        laws=("effect-at-most-once", "one-writer", "calls-pair"),
        quick=Quick(sim=("plain", "lapse")),
    ),
    Mutant(
        "synchronous-commit-off",
        "sessions do not wait for their commits to be flushed, and the server is killed",
        "acked-stays",
        "server",
        python=(
            Lines(
                "noeta.backends.stores.pg_connection",
                "Settings.options",
                (('"synchronous_commit": "on"', '"synchronous_commit": "off"'),),
            ),
            Swap("noeta.backends.stores.pg_startup", "_SYNCHRONOUS", lambda allowed: (*allowed, "off")),
        ),
        laws=("effect-at-most-once", "epochs-rise", "one-writer", "taken-once"),
    ),
    Mutant(
        "every-task-fails",
        "every turn that ends well ends the task `failed`, with a reason that a fault could have had",
        "script-finished",
        "runner",
        python=(
            Lines(
                RUNNER,
                "Runner._end_turn",
                (
                    ("        if self._state.interactive:\n", "        if False:\n"),
                    (
                        "End(TaskCompleted(answer))",
                        "End(TaskFailed(texts.LLM_ERROR, texts.MODEL_CALL_INTERRUPTED))",
                    ),
                ),
            ),
        ),
        laws=("bounded",),
        quick=Quick(sim=("plain", "kill")),
    ),
    Mutant(
        "blind-commit-retry",
        "after an unknown outcome the commit is sent again, at wherever the log ends now",
        "acked-stays",
        "worker",
        python=(
            Lines(
                "noeta.core.runner.lease",
                "Held.append",
                (
                    (
                        "        appended = self._store.append(self.claim, expected_seq, commit)\n",
                        (
                            "        try:\n"
                            "            appended = self._store.append(self.claim, expected_seq, commit)\n"
                            "        except CommitUnknown:\n"
                            "            seq = self._store.task(self.claim.task_id).last_seq\n"
                            "            appended = self._store.append(self.claim, seq, commit)\n"
                        ),
                    ),
                ),
            ),
        ),
        laws=("calls-pair", "effect-at-most-once", "script-finished", "taken-once", "same-request", "bounded"),
        quick=Quick(sim=("plain", "unknown_landed")),
    ),
)
"""Those that the harness must catch."""
