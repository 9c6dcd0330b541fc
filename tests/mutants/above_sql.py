"""Twelve bugs of runner, worker and fold: no store is wrong, so no contract of a store can see them."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import CALLS, DESK, LOOP_ENDS, RUNNER, SIM_ONLY, Lines, Mutant, Quick

ABOVE_SQL: Final = (
    Mutant(
        "seal-forgotten",
        "a successor goes on without sealing what its predecessor left half done",
        "calls-pair",
        "runner",
        python=(
            Lines(
                RUNNER,
                "Runner._recover",
                (
                    (
                        "self._desk.note(StepAttemptAbandoned(_open_from(interrupted), texts.AUTO_REDRIVE))",
                        "self._state.model_called_seq = None",
                    ),
                ),
            ),
        ),
        quick=Quick(sim=("plain", "kill")),
        extra=True,
    ),
    Mutant(
        "starts-unbounded",
        "a retry_safe call is started again for ever",
        "bounded",
        "runner",
        python=(Lines(CALLS, "recover_call", ((" and call.starts < MAX_ATTEMPTS:", ":"),)),),
        laws=("effect-at-most-once", "script-finished", SIM_ONLY),
        quick=Quick(sim=("killer-bound", "kill")),
        extra=True,
    ),
    Mutant(
        "lookup-runs-again",
        "a call whose look-up found nothing is started again, although its tool never said that this is safe",
        "effect-at-most-once",
        "runner",
        python=(
            Lines(
                CALLS,
                "recover_call",
                (
                    (
                        "tool is not None and tool.flags.retry_safe and",
                        "tool is not None and (tool.flags.retry_safe or isinstance(looks_up, Recovers)) and",
                    ),
                ),
            ),
        ),
        quick=Quick(sim=("recoverable", "kill")),
        extra=True,
    ),
    Mutant(
        "message-taken-in-open-call",
        "an interrupted model call is made again with a message that came meanwhile",
        "same-request",
        "runner",
        python=(Lines(RUNNER, "Runner._call_model", (("if self._state.model_hash is None:", "if True:"),)),),
        quick=Quick(sim=("noted", "kill")),
        extra=True,
    ),
    Mutant(
        "known-message-forgotten",
        "a task suspends although it has read the message that ends its wait",
        "wake-once",
        "runner",
        python=(
            Lines(
                DESK,
                "Desk._seen",
                (("if isinstance(next, Suspend):", "if False and isinstance(next, Suspend):"),),
            ),
        ),
        laws=("never-stuck", "script-finished"),
        quick=Quick(sim=("interactive", "kill")),
        extra=True,
    ),
    Mutant(
        "model-call-not-recorded-first",
        "a model is asked before ModelCalled is durable",
        "bounded",
        "runner",
        python=(
            Lines(
                RUNNER,
                "Runner._call_model",
                (("        self._desk.flush(Continue())\n        self._world", "        self._world"),),
            ),
        ),
        laws=("script-finished", "calls-pair", "same-request", SIM_ONLY),
        quick=Quick(sim=("killer-model", "kill")),
        extra=True,
    ),
    Mutant(
        "failed-turn-ends-conversation",
        "a failed turn ends a task that people talk to",
        "script-finished",
        "runner",
        python=(
            Lines(
                RUNNER,
                "Runner._fail_turn",
                (("if self._state.interactive and not bug_again:", "if False:"),),
            ),
        ),
        quick=Quick(sim=("interactive-hurt", "kill")),
        extra=True,
    ),
    Mutant(
        "start-number-repeated",
        "a call that is started again has the number of its first start",
        "calls-pair",
        "runner",
        python=(
            Lines(
                RUNNER,
                "Runner._run_call",
                (("ToolStarted(call.call.id, call.starts + 1,", "ToolStarted(call.call.id, call.starts or 1,"),),
            ),
        ),
        laws=("effect-at-most-once", "bounded", "script-finished", SIM_ONLY),
        quick=Quick(sim=("retry-safe", "kill")),
        extra=True,
    ),
    Mutant(
        "loop-dies-of-the-store",
        "a worker's loop ends with the first error of its store",
        "never-stuck",
        "worker",
        python=(
            Lines(
                "noeta.runtime.worker",
                "WorkerLoop._ask",
                (("            self._failures += 1\n", "            raise\n            self._failures += 1\n"),),
            ),
        ),
        laws=(LOOP_ENDS, SIM_ONLY),
        quick=Quick(sim=("plain", "unavailable")),
        extra=True,
    ),
    Mutant(
        "provider-errors-unbounded",
        "a model that only fails is asked for ever",
        "bounded",
        "runner",
        python=(
            Lines(
                "noeta.core.runner.model_step",
                "ask",
                (("if not error.retryable or attempt >= engine.retry.max_attempts:", "if not error.retryable:"),),
            ),
        ),
        laws=("script-finished", "never-stuck", SIM_ONLY),
        quick=Quick(sim=("errors-bound", "kill")),
        extra=True,
    ),
    Mutant(
        "message-taken-not-said",
        "a message is taken, and the model never hears of it",
        "script-finished",
        "runner",
        python=(
            Lines(
                "noeta.core.fold",
                "_take",
                (
                    (
                        "    text, _ = told(item)\n",
                        "    text, _ = told(item)\n    if isinstance(item, HumanResponseReceived):\n        return\n",
                    ),
                ),
            ),
        ),
        laws=("never-stuck", SIM_ONLY),
        quick=Quick(sim=("interactive-short", "kill")),
        extra=True,
    ),
    Mutant(
        "attempts-forgotten",
        "the fold does not count the calls of a model that were interrupted",
        "bounded",
        "runner",
        python=(Lines("noeta.core.fold", "_apply", (("            state.model_attempts += 1\n", ""),)),),
        laws=("script-finished", "calls-pair", SIM_ONLY),
        quick=Quick(sim=("killer-model", "kill")),
        extra=True,
    ),
)
