"""The planted bugs: each as small as the line it removes, with the promise it breaks.

A bug of the store is planted in both stores, where both have the line: as replaced text in the migrations and as
replaced text in a method of the memory store. ``promise`` is the key that the bug breaks; ``laws`` are those that
may convict it besides, because they see the consequence (a checker answers by what it sees, not by what was done).
Old texts are compared with the code by `test_mutants.py`, so that no mutant silently rots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from tests.mutants import bugs

Where = Literal["store", "runner", "worker", "server"]
Detector = Literal["contract", "race", "sim", "storm"]
DETECTORS: Final[tuple[Detector, ...]] = ("contract", "race", "sim", "storm")

Edit = tuple[str, str]
"""Old text, new text. The old text must be there."""

MEMORY: Final = "noeta.backends.stores.memory"
RUNNER: Final = "noeta.core.runner.runner"
SIM_ONLY: Final = "comes-to-an-end"
"""The simulator's own finding: a run that came to no end."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Text replaced in the source of one function. ``path``: the attribute path inside the module."""

    module: str
    path: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Swap:
    """An attribute replaced by what ``make`` makes of it."""

    module: str
    path: str
    make: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Quick:
    """What catches the bug within seconds, for `make check`.

    ``tests``: node ids of the contract, one of which must fail. ``sim``: (case, mode) of the exhaustive search,
    which must be invalid. ``race``: the scene of the race matrix that shows it first.
    """

    tests: tuple[str, ...] = ()
    sim: tuple[str, str] | None = None
    race: str | None = None


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug. ``extra``: not one of the fourteen that the harness must catch."""

    name: str
    title: str
    promise: str
    where: Where
    sql: tuple[Edit, ...] = ()
    python: tuple[Lines | Swap, ...] = ()
    laws: tuple[str, ...] = ()
    quick: Quick = Quick()
    extra: bool = False

    @property
    def convicting(self) -> frozenset[str]:
        """Laws whose anomaly is a catch for the right reason."""
        return frozenset({self.promise, *self.laws})


MEMORY_CONTRACT: Final = "tests/contract/test_memory_contract.py::TestMemoryStore::"


_FOURTEEN: Final = (
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
                "Runner._start_call",
                (
                    (
                        (
                            "        self._note(ToolStarted(call.call.id, call.starts + 1))\n"
                            "        self._flush(Continue())\n"
                            "        self._note(calls.run_call(self._engine, self._world, self._held, call))\n"
                        ),
                        (
                            "        call.starts += 1\n"
                            "        finished = calls.run_call(self._engine, self._world, self._held, call)\n"
                            "        self._note(ToolStarted(call.call.id, call.starts))\n"
                            "        self._note(finished)\n"
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
                (("    looks_up: object = tool\n", "    return None\n    looks_up: object = tool\n"),),
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
        quick=Quick(sim=("plain", "kill")),
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

_EXTRA: Final = (
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
                        "        number = row.inbox_seq + 1\n",
                        (
                            "        if row.status is Status.RUNNING:\n"
                            '            return "stored"\n'
                            "        number = row.inbox_seq + 1\n"
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
                "    END IF;\n    SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_task_id FOR UPDATE;\n",
                (
                    "    END IF;\n"
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

MUTANTS: Final[tuple[Mutant, ...]] = (*_FOURTEEN, *_EXTRA)
BY_NAME: Final[dict[str, Mutant]] = {mutant.name: mutant for mutant in MUTANTS}
