"""The laws: what must hold of every run, judged from what it left behind.

Pure checkers over logs, histories, journals and rows. They import ``noeta.core`` and nothing else of the
runtime, so that the judge does not share code with the judged beyond the words of the log.
"""

from invariants.catalogue import LAWS, LAWS_BY_KEY, PROMISES, SERVER_LAWS, Promise
from invariants.check import LawReport, Report, check_all
from invariants.evidence import (
    Answer,
    Attempt,
    Evidence,
    FaultSeen,
    FinalRow,
    Foretold,
    Held,
    JobLine,
    JournalLine,
    Kin,
    LockSeen,
    LogEntry,
    Outcome,
    RunFacts,
    Sample,
    Sent,
    TaskEvidence,
    ToolKind,
    Verb,
)
from invariants.explain import explain, explain_report
from invariants.in_memory import HeldInMemory, gather
from invariants.law import Anomaly, Finding, Law, Tally
from invariants.verdict import Verdict, merge

__all__ = [
    "LAWS",
    "LAWS_BY_KEY",
    "PROMISES",
    "SERVER_LAWS",
    "Anomaly",
    "Answer",
    "Attempt",
    "Evidence",
    "FaultSeen",
    "FinalRow",
    "Finding",
    "Foretold",
    "Held",
    "HeldInMemory",
    "JobLine",
    "JournalLine",
    "Kin",
    "Law",
    "LawReport",
    "LockSeen",
    "LogEntry",
    "Outcome",
    "Promise",
    "Report",
    "RunFacts",
    "Sample",
    "Sent",
    "Tally",
    "TaskEvidence",
    "ToolKind",
    "Verb",
    "Verdict",
    "check_all",
    "explain",
    "explain_report",
    "gather",
    "merge",
]
