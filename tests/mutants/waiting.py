"""Fourteen bugs of tasks that wait: for a message, a timer, an event, a time limit."""

from __future__ import annotations

from typing import Final

from tests.mutants import bugs
from tests.mutants.mutant import CALLS, DESK, LOWER, MEMORY, MEMORY_CONTRACT, RUNNER, Lines, Mutant, Quick, Swap

WAITING: Final = (
    Mutant(
        "wake-consumed-by-claim",
        "the items that a claim hands out are used up with it, and not with the entry that takes them",
        "taken-once",
        "store",
        sql=(
            (
                "            v_cause := CASE WHEN v_row.kept THEN 'kept' ELSE v_row.status END;\n",
                (
                    "            v_cause := CASE WHEN v_row.kept THEN 'kept' ELSE v_row.status END;\n"
                    "            UPDATE {schema}.item i SET unread_seq = v_row.last_seq\n"
                    "            WHERE i.task_id = v_row.id AND i.taken_seq IS NULL AND i.unread_seq IS NULL;\n"
                ),
            ),
        ),
        python=(
            Lines(
                MEMORY,
                "MemoryStore.claim",
                (
                    (
                        "                    requeued.append(task.row.id)\n",
                        (
                            "                    requeued.append(task.row.id)\n"
                            "                    self._stamp_unread(task, task.row.last_seq)\n"
                        ),
                    ),
                ),
            ),
            Lines(
                MEMORY,
                "MemoryStore._sweep",
                (
                    (
                        "            task.row = rules.swept(task.row)\n",
                        (
                            "            task.row = rules.swept(task.row)\n"
                            "            self._stamp_unread(task, task.row.last_seq)\n"
                        ),
                    ),
                ),
            ),
        ),
        laws=("wake-once", "never-stuck", "script-finished", "children-once", "timers-once"),
        quick=Quick(
            race="lapsed",
            tests=(MEMORY_CONTRACT + "test_a_wake_comes_again_byte_for_byte_until_it_is_recorded",),
            sim=("question", "kill"),
        ),
        extra=True,
    ),
    Mutant(
        "wake-takes-nothing",
        "`TaskWoken` is written, and the items it names stay unread",
        "taken-once",
        "store",
        python=(
            Lines(
                LOWER,
                "lower_commit",
                (
                    (
                        "for number in numbers_taken(event))",
                        'for number in (() if type(event).__name__ == "TaskWoken" else numbers_taken(event)))',
                    ),
                ),
            ),
        ),
        laws=("wake-once", "never-stuck", "children-once", "timers-once", "script-finished"),
        quick=Quick(tests=(MEMORY_CONTRACT + "test_a_recorded_wake_never_comes_again",), sim=("timers", "kill")),
        extra=True,
    ),
    Mutant(
        "repeated-wake-stored",
        "a wake that is still unread is stored again when it is repeated",
        "wake-once",
        "store",
        sql=(
            (
                "    IF FOUND THEN\n        o_outcome := 'repeat';\n        o_made_ready := false;\n",
                "    IF false THEN\n        o_outcome := 'repeat';\n        o_made_ready := false;\n",
            ),
        ),
        python=(
            Lines(
                "noeta.core.rules", "derived_key", (("if any(one.body == item.body for one in unread):", "if False:"),)
            ),
        ),
        quick=Quick(
            race="suspended", tests=(MEMORY_CONTRACT + "test_a_wake_that_is_still_unread_is_not_stored_twice",)
        ),
        extra=True,
    ),
    Mutant(
        "repeated-key-stored",
        "an item under a key that is still unread is stored again",
        "taken-once",
        "store",
        python=(
            Lines(
                MEMORY,
                "MemoryStore._post",
                (("if item.key is not None and item.key in task.keys:", "if False:"),),
            ),
        ),
        laws=("wake-once", "children-once", "script-finished"),
        quick=Quick(
            tests=(MEMORY_CONTRACT + "test_a_repeated_key_is_dropped_whatever_it_carries",), sim=("event-early", "kill")
        ),
        extra=True,
    ),
    Mutant(
        "timer-by-workers-clock",
        "a timer counts from the wall clock of the worker that runs the call",
        "timers-once",
        "runner",
        python=(
            Lines(
                CALLS,
                "CallContext.__init__",
                (("self.started_at = call.started_at / ids.MICROS_PER_SECOND", "self.started_at = world.wall()"),),
            ),
        ),
        laws=("never-stuck",),
        quick=Quick(sim=("timer", "kill")),
        extra=True,
    ),
    Mutant(
        "timers-fired-by-workers-clock",
        "the timer poll fires what is due by the wall clock of the worker that asks",
        "timers-once",
        "worker",
        python=(
            Lines(
                "noeta.runtime.worker",
                "WorkerLoop.maybe_poll_timers",
                (("now = None if self._now_fn is None else self._now_fn()", "now = self._world.wall()"),),
            ),
        ),
        quick=Quick(sim=("timers", "freeze")),
        extra=True,
    ),
    Mutant(
        "stale-limit-ends-wait",
        "the end of one wait's time ends any later wait of its kind",
        "timers-once",
        "runner",
        python=(
            Lines(
                "noeta.core.wake",
                "matches_wake",
                (("            return condition == event", "            return type(condition) is type(event)"),),
            ),
            Lines(DESK, "is_left_over", (("return comes_once and not", "return False and not"),)),
        ),
        laws=("wake-once",),
        quick=Quick(sim=("closed-question", "say")),
        extra=True,
    ),
    Mutant(
        "message-dropped-at-completion",
        "a completion lands although a message came before it",
        "taken-once",
        "store",
        python=(
            Lines(
                LOWER,
                "_targets",
                (
                    (
                        "return end, _target(Cause.CONTINUE) if isinstance(entry, TaskCompleted) else end",
                        "return end, end",
                    ),
                ),
            ),
        ),
        laws=("wake-once", "script-finished"),
        quick=Quick(
            tests=(MEMORY_CONTRACT + "test_a_completion_that_missed_a_message_lands_without_its_ending",),
            sim=("noted-late", "say"),
        ),
        extra=True,
    ),
    Mutant(
        "wait-holds-its-claim",
        "a task that waits keeps its worker and its lease",
        "waiting-is-free",
        "store",
        python=(Swap("noeta.core.task", "TRANSITIONS", bugs.transitions_that_hold_a_wait),),
        laws=("never-stuck", "row-agrees"),
        quick=Quick(tests=(MEMORY_CONTRACT + "test_a_suspended_task_holds_nothing",), sim=("timer", "kill")),
        extra=True,
    ),
    Mutant(
        "order-not-heard",
        "the keeper of a running task does not pass on that it was ordered to end",
        "bounded",
        "runner",
        python=(Lines("noeta.core.runner.lease", "LeaseKeeper._renewed", (("if renewal.ordered:", "if False:"),)),),
        laws=("never-stuck", "script-finished"),
        quick=Quick(
            tests=("tests/unit/runtime/test_orders.py::test_what_a_tool_returned_before_it_heard_is_recorded",)
        ),
        extra=True,
    ),
    Mutant(
        "cancel-keeps-epoch",
        "a cancel that ends a task does not raise its epoch",
        "epochs-rise",
        "store",
        sql=(("    o_epoch := v_row.epoch + 1;\n", "    o_epoch := v_row.epoch;\n"),),
        python=(Swap("noeta.core.task", "TRANSITIONS", bugs.transitions_that_cancel_under_the_epoch),),
        laws=("one-writer", "acked-stays"),
        quick=Quick(
            race="suspended",
            tests=(MEMORY_CONTRACT + "test_a_cancel_ends_at_once_what_nobody_runs",),
            sim=("cancel-timer", "kill"),
        ),
        extra=True,
    ),
    Mutant(
        "cancel-without-entry",
        "a cancel ends the row; its entry was to follow in a transaction of its own, which never comes",
        "row-agrees",
        "store",
        sql=(
            (
                (
                    "    INSERT INTO {schema}.entry (task_id, seq, epoch, at, body)\n"
                    "    VALUES (p_task_id, o_last_seq, o_epoch, v_now, p_ending::json);\n"
                ),
                "    o_last_seq := v_row.last_seq;\n",
            ),
        ),
        python=(
            Lines("noeta.core.rules", "cancelled", (("last_seq=row.last_seq + 1", "last_seq=row.last_seq"),)),
            Lines(
                MEMORY,
                "MemoryStore._cancel",
                (("        task.entries.append((row.epoch, now, cancel.ending))\n", ""),),
            ),
        ),
        laws=("terminal-is-final", "gapless-log", "acked-stays", "never-stuck", "script-finished"),
        quick=Quick(
            race="suspended",
            tests=(MEMORY_CONTRACT + "test_a_cancel_ends_at_once_what_nobody_runs",),
            sim=("cancel-timer", "kill"),
        ),
        extra=True,
    ),
    Mutant(
        "cancelled-call-recovered",
        "a successor decides about interrupted calls before it looks whether the task is to end",
        "terminal-is-final",
        "runner",
        python=(
            Lines(
                "noeta.core.actions",
                "next_action",
                (
                    (
                        (
                            "    if ordered and state.cancel is not None:\n"
                            "        return EndCancelled(state.cancel)\n"
                            "    interrupted"
                        ),
                        "    interrupted",
                    ),
                    (
                        "    return _within_turn(state)",
                        (
                            "    if ordered and state.cancel is not None:\n"
                            "        return EndCancelled(state.cancel)\n"
                            "    return _within_turn(state)"
                        ),
                    ),
                ),
            ),
        ),
        laws=("calls-pair", "effect-at-most-once", "bounded"),
        quick=Quick(sim=("cancel-retry-safe", "kill")),
        extra=True,
    ),
    Mutant(
        "close-ends-conversation",
        "an order to stop a turn ends the whole conversation",
        "script-finished",
        "runner",
        python=(
            Lines(
                RUNNER,
                "Runner._end_cancelled",
                (("if handle is None and order.action == CLOSE and", "if False and order.action == CLOSE and"),),
            ),
        ),
        laws=("never-stuck", "taken-once"),
        quick=Quick(sim=("closed", "kill")),
        extra=True,
    ),
)
