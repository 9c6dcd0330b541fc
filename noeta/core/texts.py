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
WORKER_STOPPED: Final = "worker_stopped"
"""The reason of a seal that a worker wrote itself before it gave the task back: nobody died in that model call."""

MODEL_CALL_INTERRUPTED: Final = "the model call kept being interrupted"
REPLY_TRUNCATED: Final = "the model's output was cut at its limit three times in a row"
OUTCOME_UNKNOWN: Final = (
    "Interrupted before its result was recorded, so its outcome is unknown — it may have fully, partly, or not "
    "applied. Check its effect before running it again."
)
CONTINUE_TRUNCATED: Final = "Your output was cut at its limit. Go on from where it stopped."
UNKNOWN_TOOL: Final = "There is no tool named {tool!r}."
