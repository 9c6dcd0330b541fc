"""Twelve bugs of tasks that delegate: how children are born, what their parents hear, and how they end."""

from __future__ import annotations

from typing import Final

from tests.mutants import bugs
from tests.mutants.mutant import DESK, LOWER, MEMORY, MEMORY_CONTRACT, Lines, Mutant, Quick, Swap

OUTCOME: Final = "noeta.core.runner.outcome"

DELEGATING: Final = (
    Mutant(
        "child-born-apart",
        "a child is created in a call of its own, before the entry that names it",
        "children-once",
        "runner",
        python=(Swap(DESK, "Desk.flush", bugs.children_born_first),),
        quick=Quick(sim=("agent", "kill")),
        extra=True,
    ),
    Mutant(
        "fast-child-lost",
        "the result of a child that ends before its parent waits is answered `stored` and dropped",
        "children-once",
        "store",
        sql=(
            (
                "    o_outcome := 'stored';\n    o_number := v_row.inbox_seq + 1;\n",
                (
                    "    o_outcome := 'stored';\n    o_number := v_row.inbox_seq + 1;\n"
                    "    IF v_row.status = 'running' AND p_wake_key LIKE 'child:%' THEN\n        RETURN;\n    END IF;\n"
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
                            "        if row.status is Status.RUNNING and item.wake_key.startswith('child:'):\n"
                            '            return "stored"\n'
                            "        self._put_item(task, item, row.inbox_seq + 1, now)\n"
                        ),
                    ),
                ),
            ),
        ),
        laws=("never-stuck", "taken-once", "script-finished", "wake-once"),
        quick=Quick(
            race="parent runs",
            tests=(MEMORY_CONTRACT + "test_a_child_that_ends_before_its_parent_waits_is_not_missed",),
            sim=("agent-beside", "freeze"),
        ),
        extra=True,
    ),
    Mutant(
        "group-looked-at-once",
        "a wait for a group counts from its size, whatever results are there already",
        "never-stuck",
        "store",
        python=(Lines(LOWER, "_targets", (("members_missing(wake_on, known)", "members_missing(wake_on, ())"),)),),
        laws=("wake-once", "children-once", "script-finished"),
        quick=Quick(
            tests=(MEMORY_CONTRACT + "test_members_that_ended_before_the_wait_are_counted",),
            sim=("group-beside", "freeze"),
        ),
        extra=True,
    ),
    Mutant(
        "group-in-arrival-order",
        "a group's results stand in the order in which they came",
        "children-once",
        "runner",
        python=(
            Lines(
                "noeta.core.wake",
                "find_wake",
                (("sorted(first, key=_birth)", "first"),),
            ),
        ),
        laws=("same-request",),
        quick=Quick(sim=("group", "kill")),
        extra=True,
    ),
    Mutant(
        "result-after-end",
        "a child's result is posted after its end, in a transaction of its own",
        "children-once",
        "runner",
        python=(
            Lines(
                LOWER, "lower_commit", (("None if ending_entry is None else _result_of(claim, ending_entry)", "None"),)
            ),
            Swap("noeta.core.runner.lease", "Held.append", bugs.append_and_then_tell),
        ),
        laws=("never-stuck", "script-finished"),
        quick=Quick(sim=("agent", "kill")),
        extra=True,
    ),
    Mutant(
        "result-told-twice",
        "the key of a child's result is not the child's own, and the result is posted under both",
        "children-once",
        "store",
        python=(
            Lines(
                LOWER,
                "lower_commit",
                (
                    (
                        "        posts.append(result)\n",
                        (
                            "        own = f'{result.key}:{claim.epoch}'\n"
                            "        again = (own, result.body, result.wake_key, result.group_key, True)\n"
                            "        posts += [result, LoweredItem(result.task_id, *again)]\n"
                        ),
                    ),
                ),
            ),
        ),
        laws=("taken-once", "wake-once", "never-stuck", "script-finished"),
        quick=Quick(
            tests=(MEMORY_CONTRACT + "test_a_childs_end_wakes_its_parent_with_the_result",), sim=("agent", "kill")
        ),
        extra=True,
    ),
    Mutant(
        "handback-without-key",
        "a report is posted before the entry that says so, and under no key",
        "children-once",
        "runner",
        python=(Swap(DESK, "Desk.flush", bugs.posts_sent_first),),
        laws=("taken-once", "same-request"),
        quick=Quick(sim=("handback", "kill")),
        extra=True,
    ),
    Mutant(
        "depth-not-capped",
        "sub-agents delegate as deep as they like",
        "bounded",
        "runner",
        python=(Lines(OUTCOME, "_check_delegation", (("if depth_max is not None and", "if False and"),)),),
        laws=("children-once", "script-finished"),
        quick=Quick(sim=("too-deep", "kill")),
        extra=True,
    ),
    Mutant(
        "no-cascade",
        "the children of a task that has ended hear nothing of it",
        "children-once",
        "store",
        sql=(("        PERFORM {schema}.order_1(v_id, p_key, p_body);\n", "        NULL;\n"),),
        python=(
            Lines(
                MEMORY,
                "MemoryStore._order_children",
                (("            self._order_to_end(child, now)\n", "            pass\n"),),
            ),
        ),
        laws=("never-stuck",),
        quick=Quick(
            race="parent runs",
            tests=(MEMORY_CONTRACT + "test_the_unfinished_children_of_an_ended_task_are_ordered_to_end",),
            sim=("cancel-agent", "kill"),
        ),
        extra=True,
    ),
    Mutant(
        "background-not-ordered",
        "what works in the background of a task goes on after its end",
        "children-once",
        "store",
        sql=(
            (
                (
                    "        SELECT t.id FROM {schema}.task t WHERE t.parent = p_parent AND t.status <> 'terminal'"
                    " ORDER BY t.id\n"
                    "    LOOP\n"
                ),
                (
                    "        SELECT t.id FROM {schema}.task t WHERE t.parent = p_parent AND t.status <> 'terminal'\n"
                    "            AND t.group_id IS DISTINCT FROM 'background' ORDER BY t.id\n"
                    "    LOOP\n"
                ),
            ),
        ),
        python=(
            Lines(
                MEMORY,
                "MemoryStore._order_children",
                (
                    (
                        "if task.row.parent == parent]",
                        'if task.row.parent == parent and task.row.group != "background"]',
                    ),
                ),
            ),
        ),
        laws=("never-stuck",),
        quick=Quick(
            race="root runs",
            tests=(MEMORY_CONTRACT + "test_it_is_ordered_to_end_with_the_root",),
            sim=("background-short", "kill"),
        ),
        extra=True,
    ),
    Mutant(
        "late-child-not-ordered",
        "a child that is born under a root that has ended hears nothing of it",
        "children-once",
        "store",
        sql=(("        IF v_parent_lives IS NOT TRUE THEN", "        IF false THEN"),),
        python=(
            Lines(
                MEMORY,
                "MemoryStore._apply",
                (("if child.adopted and self._has_ended(child.parent):", "if False:"),),
            ),
        ),
        laws=("never-stuck",),
        quick=Quick(
            race="root runs",
            tests=(MEMORY_CONTRACT + "test_born_under_a_root_that_has_ended_it_has_its_order_at_once",),
            sim=("cancel-above", "say"),
        ),
        extra=True,
    ),
    Mutant(
        "cancelled-child-silent",
        "a child that is cancelled while nobody runs it tells its parent nothing",
        "children-once",
        "store",
        sql=(
            (
                (
                    "    IF p_parent IS NOT NULL THEN  -- Keeps: children-once\n"
                    "        PERFORM 1 FROM {schema}.post_1(p_parent, p_result_key, p_result_body, p_result_wake,"
                    " p_result_group);\n"
                    "    END IF;\n"
                    "    PERFORM {schema}.order_children_1"
                ),
                "    PERFORM {schema}.order_children_1",
            ),
        ),
        python=(Lines(MEMORY, "MemoryStore._cancel", (("if cancel.result is not None:", "if False:"),)),),
        laws=("never-stuck",),
        quick=Quick(
            race="parent waits for a lapsed child",
            tests=(MEMORY_CONTRACT + "test_a_cancelled_child_tells_its_parent_once",),
            sim=("agent-cancelled-5", "kill"),
        ),
        extra=True,
    ),
)
