"""Words the runtime writes into logs, and the bounds that the same pages print beside them."""

from __future__ import annotations

from typing import Final

MAX_MODEL_ATTEMPTS: Final = 3
"""``ModelCalled`` entries without a reply before the turn fails: a call that kills its worker never loops."""

MAX_TRUNCATED_REPLIES: Final = 3
"""Replies in a row that were cut at the output limit before the turn fails ``llm_truncated``."""

MAX_EMPTY_REPLIES: Final = 3
"""Empty replies in a row before the turn ends without an answer."""

MAX_INTERNAL_ERRORS: Final = 2
"""Bugs of the runner in a row: the first fails the turn, the second ends the task."""

LLM_ERROR: Final = "llm_error"
LLM_TRUNCATED: Final = "llm_truncated"
INTERNAL_ERROR: Final = "internal_error"
UNREADABLE_LOG: Final = "unreadable_log"
TOO_MANY_FAILURES: Final = "max_attempts_exceeded"
TOO_MANY_TAKEOVERS: Final = "stale_reclaim_exceeded"
AUTO_REDRIVE: Final = "auto_redrive"
"""The reason of a seal whose attempt is taken up again at once: nobody has to be asked."""
WORKER_STOPPED: Final = "worker_stopped"
"""The reason of a seal that a worker wrote itself before it gave the task back: nobody died in that model call."""

MODEL_CALL_INTERRUPTED: Final = "the model call kept being interrupted"
REPLY_TRUNCATED: Final = "the model's output was cut at its limit three times in a row"
OUTCOME_UNKNOWN: Final = (
    "Interrupted before its result was recorded, so its outcome is unknown — it may have fully, partly, or not "
    "applied. Check its effect before running it again."
)
TURN_ENDED_FIRST: Final = "Not done: the turn ended before this call had its result."
CONTINUE_TRUNCATED: Final = "Your output was cut at its limit. Go on from where it stopped."
UNKNOWN_TOOL: Final = "There is no tool named {tool!r}."

TIMER_FIRED: Final = "The timer has fired."
WAIT_TIMED_OUT: Final = "Nothing came within the time limit."
CHILD_ENDED: Final = "Task {child} {status}:\n{output}"
JOB_STARTED: Final = "Job {job} is started in the background. You will be told when it has ended."
JOB_ENDED: Final = "Job {job} {how}. {output}"
JOB_OUTPUT_CUT: Final = "[cut: {bytes} bytes before this]\n"
JOB_LOST: Final = (
    "Job {job} is lost: its worker lost the task (it died, was frozen or was cut off), and the job with it. How far it "
    "came is unknown. Check its effect before you start it again."
)
CRON_MISSED: Final = "{prompt}\n[{missed} earlier occurrences were skipped]"
APPROVE: Final = "approve"
"""The answer that approves a call. Every other one denies it, and is told as the reason."""
DENIED: Final = "Not done: {reason}"
NOT_APPROVED: Final = "a person did not approve this call: {answer}"
ATTEMPT_PARKED: Final = "attempt_parked"
"""Why a task rests that was taken over in the middle of calls whose outcome nobody can tell."""
PARKED_NOTICE: Final = (
    "The worker of this task was lost in the middle of: {calls}. What came of that is unknown. The task waits for a "
    "message that says how to go on."
)
CHILD_STARTED: Final = "Call {call} works in the background. You will be told when it has ended."
HANDBACK: Final = "Task {child} reports:\n{report}"
HANDED_BACK: Final = "Reported."
TOO_DEEP: Final = (
    "this task stands at depth {depth} of at most {depth_max}, so it may not delegate further; do the work yourself"
)
RESULT_CUT: Final = "\n[cut: the result had {chars} characters, {kept} are kept]"
QUESTION_CUT: Final = "\n[cut: the question had {chars} characters, {kept} are kept]"
OUTPUT_CUT: Final = "\n[cut: the output had {chars} characters, {kept} are kept]"

TURN_FAILED: Final = "turn_failed: {code}"
GIVEN_UP_KEY: Final = "cancel:given-up"
"""The key of the order that a child gets when the turn that waited for it ends early."""
WAIT_GIVEN_UP: Final = "the call that waited for it was given up"
PARENT_ENDED: Final = "its parent has ended"
"""The reason of the order that every unfinished child of a task gets in the transaction that ends it."""
