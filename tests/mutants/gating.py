"""Seven bugs of gates, of approvals, and of attempts that are parked."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import RUNNER, Lines, Mutant, Quick

_CALLS: Final = "tests/unit/runtime/test_gated_calls.py::"
_APPROVALS: Final = "tests/unit/runtime/test_approvals.py::"
_DEATHS: Final = "tests/unit/runtime/test_gated_deaths.py::"
_PARKING: Final = "tests/unit/runtime/test_parking.py::"
_PARKING_DEATHS: Final = "tests/unit/runtime/test_parking_deaths.py::"
_DECIDES: Final = "            return self._park(interrupted, found)\n"

GATING: Final = (
    Mutant(
        "recovered-call-gated-again",
        "a call that a worker left half done is gated again before it is started again",
        "calls-pair",
        "runner",
        python=(
            Lines(
                RUNNER,
                "Runner._recover",
                (
                    (
                        "                self._run_call(call)\n",
                        (
                            "                if isinstance(calls.gate(self._engine, self._state, call), Allow):\n"
                            "                    self._run_call(call)\n"
                            "                else:\n"
                            "                    self._desk.note(denied(call, 'it was gated again'))\n"
                        ),
                    ),
                ),
            ),
        ),
        laws=("effect-at-most-once", "script-finished"),
        quick=Quick(
            tests=(_DEATHS + "test_a_recovered_call_is_not_gated_again_and_runs_with_what_the_log_holds",),
        ),
        extra=True,
    ),
    Mutant(
        "any-answer-approves",
        "the gate is forgotten once a person has answered: the call is started whatever they said",
        "effect-at-most-once",
        "runner",
        python=(
            Lines(
                "noeta.core.fold",
                "_answer",
                ((" and event.text == texts.APPROVE and not event.sender:", ":"),),
            ),
        ),
        laws=("calls-pair", "script-finished"),
        quick=Quick(
            tests=(_APPROVALS + "test_everything_but_the_word_denies_and_is_told_as_the_reason",), sim=("deny", "kill")
        ),
        extra=True,
    ),
    Mutant(
        "gated-call-starts-unasked",
        "a call that needs a person's approval is started while the question is still open",
        "effect-at-most-once",
        "runner",
        python=(
            Lines(
                RUNNER,
                "Runner._start_call",
                (
                    (
                        "                self._desk.note(ApprovalAsked(call.call.id, handle, question, input))\n",
                        (
                            "                self._desk.note(ApprovalAsked(call.call.id, handle, question, input))\n"
                            "                self._run_call(call)\n"
                        ),
                    ),
                ),
            ),
        ),
        laws=("calls-pair", "wake-once", "never-stuck", "script-finished"),
        quick=Quick(
            tests=(_APPROVALS + "test_a_call_that_needs_approval_rests_before_its_start",), sim=("approve", "kill")
        ),
        extra=True,
    ),
    Mutant(
        "rewritten-input-not-recorded",
        "a tool runs with what a gate made of its input, and the log says that it ran with the model's",
        "effect-at-most-once",
        "runner",
        python=(
            Lines(
                RUNNER,
                "Runner._run_call",
                (
                    (
                        "        self._desk.note(ToolStarted(call.call.id, call.starts + 1, call.rewritten))\n",
                        (
                            "        rewritten = call.rewritten\n"
                            "        self._desk.note(ToolStarted(call.call.id, call.starts + 1))\n"
                            "        call.rewritten = rewritten\n"
                        ),
                    ),
                ),
            ),
        ),
        quick=Quick(tests=(_CALLS + "test_the_log_holds_what_runs_and_the_model_what_it_asked_for",)),
        extra=True,
    ),
    Mutant(
        "park-lost-in-a-crash",
        "the seal and the notice of a park are one commit, its rest another: a worker may die between them",
        "calls-pair",
        "runner",
        python=(
            Lines(
                RUNNER,
                "Runner._park",
                (
                    (
                        "        self._desk.stop_jobs()  # a person says",
                        "        self._desk.flush(Continue())\n        self._desk.stop_jobs()  # a person says",
                    ),
                ),
            ),
        ),
        laws=("script-finished", "never-stuck"),
        quick=Quick(
            tests=(_PARKING_DEATHS + "test_a_death_at_any_point_of_parking_leaves_all_of_it_or_nothing",),
            sim=("park-and-type", "kill"),
        ),
        extra=True,
    ),
    Mutant(
        "park-redrives-unsafe",
        "what a person is to decide is started again instead, whether or not it is safe",
        "effect-at-most-once",
        "runner",
        python=(
            Lines(
                RUNNER,
                "Runner._recover",
                ((_DECIDES, "            found = [(call, Undecided.RUN_AGAIN) for call, _ in found]\n"),),
            ),
        ),
        laws=("bounded", "calls-pair"),
        quick=Quick(
            tests=(_PARKING + "test_an_unknown_outcome_rests_until_a_person_says_how_to_go_on",),
            sim=("park-and-type", "kill"),
        ),
        extra=True,
    ),
    Mutant(
        "parked-call-cut-short",
        "whoever takes a task over in the middle of a call decides about the calls that wait for their answer, too",
        "effect-at-most-once",
        "runner",
        python=(
            Lines(
                "noeta.core.actions",
                "next_action",
                (
                    (
                        "    if interrupted or state.model_called_seq is not None:\n",
                        (
                            "    if interrupted:\n"
                            "        interrupted += tuple(call for call in state.calls.values() if call.waits)\n"
                            "    if interrupted or state.model_called_seq is not None:\n"
                        ),
                    ),
                ),
            ),
        ),
        laws=("calls-pair", "wake-once", "children-once", "script-finished", "never-stuck"),
        quick=Quick(
            tests=(_DEATHS + "test_a_parked_call_is_not_cut_short_by_a_takeover",), sim=("approve-late", "kill")
        ),
        extra=True,
    ),
)
