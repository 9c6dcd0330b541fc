"""Three bugs of how the owner of a kept task goes on."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import MEMORY, MEMORY_CONTRACT, Lines, Mutant, Quick

_RESUMES: Final = "MemoryStore.resume"
_DUE: Final = "if rules.kept_timer_due(task.row, now):"
_SQL_DUE: Final = "        IF v_row.ready_at <= o_now THEN\n            o_inbox_seq"

KEPT: Final = (
    Mutant(
        "resume-fires-no-timer",
        "the owner of a kept task goes on, and the timer that was due leaves no item",
        "timers-once",
        "store",
        sql=((_SQL_DUE, "        IF false THEN\n            o_inbox_seq"),),
        python=(Lines(MEMORY, _RESUMES, ((_DUE, "if False:"),)),),
        laws=("never-stuck",),
        quick=Quick(
            race="kept, timer due",
            tests=(MEMORY_CONTRACT + "test_a_timer_that_is_due_is_the_stored_condition_byte_for_byte",),
            sim=("kept-timer", "kill"),
        ),
        extra=True,
    ),
    Mutant(
        "resume-fires-early",
        "the owner of a kept task goes on, and its timer leaves an item although its time has not come",
        "timers-once",
        "store",
        sql=((_SQL_DUE, "        IF v_row.ready_at IS NOT NULL THEN\n            o_inbox_seq"),),
        python=(Lines(MEMORY, _RESUMES, ((_DUE, "if task.row.kept and task.row.ready_at is not None:"),)),),
        quick=Quick(
            race="kept",
            tests=(MEMORY_CONTRACT + "test_a_timer_that_is_not_due_leaves_nothing",),
            sim=("job-fails", "kill"),
        ),
        extra=True,
    ),
    Mutant(
        "resume-ignores-epoch",
        "to go on with a kept task, epoch and token are not compared: a replaced worker does it for its successor",
        "one-writer",
        "store",
        sql=(
            (
                "IF (v_row.epoch = p_epoch AND v_row.token = p_token AND v_row.lease_until > o_now) IS NOT TRUE THEN",
                "IF (v_row.lease_until > o_now) IS NOT TRUE THEN",
            ),
        ),
        python=(
            Lines(
                MEMORY,
                _RESUMES,
                (
                    (
                        "            task = self._fenced(claim, now)\n",
                        (
                            "            task = self._task(claim.task_id)\n"
                            "            if task.row.lease_until is None or task.row.lease_until <= now:\n"
                            "                raise rules.lost(task.row, claim)\n"
                        ),
                    ),
                ),
            ),
        ),
        quick=Quick(race="lapsed", tests=(MEMORY_CONTRACT + "test_a_claim_that_does_not_hold_resumes_nothing",)),
        extra=True,
    ),
)
