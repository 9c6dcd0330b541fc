"""The sentences of the document "WorkerLoop" about errors, outcomes, signals and stopping."""

from __future__ import annotations

from typing import Final

from tests.promised.sentences import Sections, Sentence

_CONSTRUCTOR: Final = (
    Sentence("knob/grace-default", "shutdown_grace_s: Optional[float] = DEFAULT_SHUTDOWN_GRACE_S,   # 30.0"),
    Sentence("knob/handle-default", "next_goal_handle: Optional[str] = None,"),
    Sentence(
        "knob/grace",
        "max wait for an in-flight step after stop(), then abandon;",
        "shutdown_grace_s",
    ),
    Sentence("knob/no-grace", "None / <= 0 = unbounded wait", "shutdown_grace_s"),
    Sentence(
        "knob/handle",
        "when set, a human close / cancel suspends the task on this handle (reopenable by typing again) instead of "
        "releasing it terminal",
        "next_goal_handle",
    ),
)

_MEMBERS: Final = (
    Sentence(
        "member/run-forever",
        "drive until stop(); each iteration: maybe_sweep() → maybe_poll_timers() → tick(), sleeping poll_interval when "
        "idle.",
        "run_forever(*, install_signals=False)",
    ),
    Sentence(
        "member/signals",
        "install_signals=True wires SIGTERM/SIGINT to stop() (main thread only) and restores handlers on exit",
        "run_forever(*, install_signals=False)",
    ),
    Sentence("member/stop", "signal the loop to stop after the current iteration", "stop()"),
    Sentence("member/running", "loop still running", "running: bool"),
    Sentence(
        "member/abandoned",
        "set when the shutdown grace elapsed with a step still in flight.",
        "abandoned: bool",
    ),
    Sentence(
        "member/host-must-exit",
        "The host must exit the process — the abandoned step thread may still write the EventLog; in-process reuse is "
        "unsupported",
        "abandoned: bool",
        superseded="the host must exit all the same, because the thread goes on; but its handle on the store is cut, "
        "so that it writes nothing more",
    ),
)

_ERRORS: Final = (
    Sentence("error/loop-lives", "A resident loop must not crash on a poisoned task:"),
    Sentence(
        "error/invalid-lease",
        "InvalidLease → log + continue; no release / fail (the lease is not ours).",
    ),
    Sentence(
        "error/any-other",
        "Any other exception → dispatcher.fail(lease_id, retryable=True, reason=…): bounded retry up to the backend's "
        "max_fail_attempts, then terminal.",
    ),
    Sentence("error/fail-raises", "If fail() itself raises → log + continue."),
    Sentence("error/next-task", "The loop always proceeds to the next task."),
    Sentence("error/provider", "Provider failures never reach this backstop:"),
    Sentence(
        "error/provider-translated",
        "runtime/llm.py translates a provider exception into an error LLMResponse the policy reads,",
        superseded="there is no error reply: the model step (noeta/core/runner/model_step.py) asks again, and the "
        "runner writes `TurnFailed`",
    ),
    Sentence("error/provider-counted-once", "so retries are consumed there rather than double-counted here."),
)

_OUTCOMES: Final = (
    Sentence(
        "outcome/names",
        'WorkerOutcome: "woken" | "drained" | "skipped" | "cancelled" | "stopped".',
    ),
    Sentence(
        "outcome/skipped",
        '"skipped" means a suspended task with no wake yet (a diagnostic, not an error);',
    ),
    Sentence(
        "outcome/ordered",
        '"cancelled" / "stopped" mean a human cancel/close landed mid-turn — "cancelled" left the task terminal, '
        '"stopped" left it reopenable.',
    ),
    Sentence(
        "outcome/parked",
        '"stopped" also covers a crash-recovery park: the task rests suspended with a system notice, and typing a '
        "message resumes it.",
    ),
    Sentence(
        "outcome/signals",
        "ReliabilityEvent — process-local signals (not EventLog events), sent to reliability_sink.",
    ),
    Sentence(
        "outcome/kinds",
        "Kinds: stale_requeued, suspended_without_wake, step_failed_retryable, heartbeat_invalid_lease, "
        "shutdown_abandoned, timers_fired, attempt_abandoned, attempt_parked",
    ),
    Sentence(
        "outcome/crash-recovery-moments",
        "(the last two are the crash-recovery moments: an interrupted attempt sealed and re-driven automatically, or "
        "sealed and parked for a human).",
    ),
    Sentence(
        "outcome/proves",
        "Every kind names what the loop can actually prove from the Dispatcher seam, never a root cause it cannot "
        "observe.",
    ),
    Sentence(
        "outcome/wake-recovery-error",
        "WakeRecoveryError — a woken lease's wake cannot be reconciled against folded state; the worker fails loud.",
        superseded="it cannot come to that: `TaskWoken` takes its item in the same append, so that a wake is either "
        "unread or in the log, and nothing is left to reconcile; an append that takes an item twice is refused",
    ),
    Sentence("outcome/crash-is-no-error", "A crash mid-step is not an error path:"),
    Sentence(
        "outcome/sealed",
        "on the next lease the interrupted attempt is sealed with StepAttemptAbandoned and re-driven automatically "
        "when it is side-effect-free per the approval surface,",
    ),
    Sentence("outcome/parks", "or the task is parked for a human (see known limitations)."),
)

_STOPPING: Final = (
    Sentence(
        "stopping/waits",
        "stop() stops leasing and waits up to shutdown_grace_s for the in-flight step",
    ),
    Sentence("stopping/lease-alive", "(its lease kept alive by the heartbeat)."),
    Sentence(
        "stopping/abandons",
        "On timeout the loop abandons the step: stops its heartbeat, emits shutdown_abandoned, sets abandoned, and "
        "returns without releasing or failing the lease.",
    ),
    Sentence(
        "stopping/process-exits",
        "Python cannot interrupt the step thread — abandon is only safe because the process exits;",
        superseded="it is safe as soon as the step is abandoned: the handle of the step is cut, and what its thread "
        "still does is not recorded",
    ),
    Sentence(
        "stopping/reclaimed",
        "the lease then expires and requeue_stale reclaims the task on the next start.",
    ),
    Sentence("stopping/not-forever", "The heartbeat cannot extend a lease forever:"),
    Sentence(
        "stopping/who-counts",
        "the dispatcher caps extensions at heartbeat_max,",
        superseded="the keeper of the process counts: the store cannot tell a step that runs from a task that rests "
        "with its claim kept, which may be renewed without end",
    ),
    Sentence("stopping/bound", "so heartbeat_interval × heartbeat_max bounds one step's hold;"),
    Sentence(
        "stopping/past-the-cap",
        "past the cap the lease is force-released and the step's next write fails with InvalidLease.",
    ),
)

SECTIONS: Final[Sections] = (
    ("Constructor", _CONSTRUCTOR),
    ("Methods and properties", _MEMBERS),
    ("Exception policy", _ERRORS),
    ("Outcome and reliability types", _OUTCOMES),
    ("Shutdown semantics", _STOPPING),
)
"""The document's headings, and what stands below each."""
