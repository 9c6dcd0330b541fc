"""A deterministic stand-in for a model: scripts from seeds, tools with a journal, and what must come of them."""

from scripted_model.app import SYSTEM, make_engine
from scripted_model.foretell import depth_of, foretell, foretell_all, foretell_child
from scripted_model.foretold import Foretold, ForetoldCall, ForetoldChild, ForetoldTurn
from scripted_model.generate import workload
from scripted_model.journal import (
    Death,
    Effect,
    FileJournal,
    Journal,
    JournalBook,
    JournalContents,
    JournalFailed,
    MemoryJournal,
    read_journal,
    token_of,
)
from scripted_model.profile import DEFAULT_WEIGHTS, Kind, Profile
from scripted_model.provider import ScriptedProvider
from scripted_model.script import SUBTASK_DEPTH_MAX, TOOL_OF, BadScript, Script, from_goal, to_goal
from scripted_model.tools import make_tools
from scripted_model.workload import AGENT, ScheduledMessage, ScriptedTask, Workload, answer_for, from_json, is_due

__all__ = [
    "AGENT",
    "DEFAULT_WEIGHTS",
    "SUBTASK_DEPTH_MAX",
    "SYSTEM",
    "TOOL_OF",
    "BadScript",
    "Death",
    "Effect",
    "FileJournal",
    "Foretold",
    "ForetoldCall",
    "ForetoldChild",
    "ForetoldTurn",
    "Journal",
    "JournalBook",
    "JournalContents",
    "JournalFailed",
    "Kind",
    "MemoryJournal",
    "Profile",
    "ScheduledMessage",
    "Script",
    "ScriptedProvider",
    "ScriptedTask",
    "Workload",
    "answer_for",
    "depth_of",
    "foretell",
    "foretell_all",
    "foretell_child",
    "from_goal",
    "from_json",
    "is_due",
    "make_engine",
    "make_tools",
    "read_journal",
    "to_goal",
    "token_of",
    "workload",
]
