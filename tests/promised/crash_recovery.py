"""The sentences of the document "One writer and crash recovery" about what the next worker finds half done."""

from __future__ import annotations

from typing import Final

from tests.promised.sentences import Sections, Sentence

_FOLDING: Final = (
    Sentence(
        "recovery/is-folding",
        "There is no separate recovery procedure. The next worker to claim the task folds its log like any claim does, "
        "and next_action sees what the log shows.",
    ),
    Sentence("recovery/two-things", "Two things can be half done: a model call and a tool call."),
)

_MODEL: Final = (
    Sentence("model/recorded-first", "ModelCalled is appended before the request is sent."),
    Sentence("model/left-open", "A crash during the call leaves a ModelCalled with no ModelReplied."),
    Sentence("model/called-again", "The turn is still open, so the next claimer simply calls the model again."),
    Sentence(
        "model/same-bytes",
        "The request is rebuilt from the same log, so it is the same bytes, and the provider's prompt cache still "
        "applies.",
    ),
    Sentence(
        "model/no-partial-text",
        "Partial streamed text was never recorded and is not needed.",
        later="streaming: a provider answers with a whole reply; of a call cut short nothing is recorded",
    ),
    Sentence("model/attempts-counted", "TaskState.model_attempts counts ModelCalled events without a reply;"),
    Sentence(
        "model/three-attempts",
        "at 3 the turn fails with llm_error: the model call kept being interrupted (an interactive task then waits for "
        "the next message, a one-shot task ends failed).",
    ),
    Sentence(
        "model/provider-retries-apart",
        "Retrying a provider error inside one call is separate, and does not count here (the model step).",
    ),
)

_TOOL: Final = (
    Sentence("tool/recorded-first", "ToolStarted is appended before a tool runs."),
    Sentence(
        "tool/left-open",
        "A crash during the call leaves a ToolStarted with no ToolFinished: the tool may have done all, part or none "
        "of its work.",
    ),
    Sentence("tool/interrupted", "The next claimer's next_action returns Interrupted,"),
    Sentence(
        "tool/decided-in-order",
        "and recover_calls (noeta/core/runner/calls.py) decides for each such call, in this order:",
        superseded="the order is as printed; the function is `recover_call` and decides about one call, so that the "
        "runner can weigh all of a reply before it goes on or parks (ADR 0012)",
    ),
    Sentence("tool/looks-up", "The tool looks the outcome up. A tool may define recover(input, ctx).", "rule 1"),
    Sentence(
        "tool/same-key",
        "It gets the same ctx.idempotency_key the call had, <task id>:<call id>, the same on every worker, and returns "
        "the result if it can tell what happened, or None.",
        "rule 1",
    ),
    Sentence(
        "tool/retry-safe",
        "The tool is safe to run again. A tool whose ToolFlags say retry_safe (running it again changes nothing "
        "outside the call: Read, WebFetch, WebSearch, ToolSearch, the MCP resource readers, the todo tools...) is "
        "started again,",
        "rule 2",
        later="the tools named as examples",
    ),
    Sentence(
        "tool/three-starts",
        "up to MAX_ATTEMPTS (3) starts in all, so a call that kills its worker is not run forever.",
        "rule 2",
    ),
    Sentence(
        "tool/unknown",
        'Otherwise the outcome is unknown. The call gets an error result telling the model: "Interrupted before its '
        "result was recorded, so its outcome is unknown — it may have fully, partly, or not applied. Check its effect "
        'before running it again."',
        "rule 3",
    ),
    Sentence(
        "tool/model-looks",
        "The model, which can see the files and run commands, checks for itself.",
        "rule 3",
    ),
    Sentence(
        "tool/not-gated-again",
        "Recovered calls are not gated again: each was allowed when it ran, and the log records the call as it ran "
        "(after any rewrite).",
    ),
    Sentence(
        "tool/parked-is-not-cut-short",
        'A parked call is not "cut short": it is waiting for its answer, and carries on when the answer comes.',
    ),
    Sentence("tool/at-most-once", "Side effects are therefore at most once unless a tool opts in."),
    Sentence(
        "tool/safe-default",
        "That is the safe default: a blind re-run of rm, a payment or a deploy is worse than asking the model to look.",
    ),
    Sentence(
        "tool/key-for-outside",
        "Pass ctx.idempotency_key to an outside system that drops repeats (an HTTP Idempotency-Key header). The MCP "
        "plugin sends it on every tools/call in _meta.",
        later="the MCP plugin; every start of a call and its look-up get the same key",
    ),
    Sentence(
        "tool/key-for-posts",
        "Use it as a dedupe key when posting to another task: SubagentHandback's recover simply runs again, because "
        "its report is posted to the parent with the key subtasks:handback:<key>, and a repeat is dropped.",
    ),
    Sentence(
        "tool/clean-up",
        "Clean up instead: the Agent tool's recover removes a worktree a launch left behind (the launch itself is "
        "written with the call's result, so a cut-short call launched no agent).",
        later="worktrees; a cut-short call launched no agent",
    ),
    Sentence(
        "tool/children-with-result",
        "Child tasks are safe by construction: a tool's children are created in the same append as its ToolFinished "
        "(or its park),",
    ),
    Sentence("tool/children-ids", "and their ids are derived from the call (<task>.<call>.<n>)."),
    Sentence(
        "tool/children-crash",
        "A crash before the append leaves no child; a crash after it leaves the result recorded.",
    ),
)

SECTIONS: Final[Sections] = (
    ("Recovery is folding the log", _FOLDING),
    ("A model call cut short", _MODEL),
    ("A tool call cut short", _TOOL),
)
"""The document's headings, and what stands below each; one_writer.py has those before."""
