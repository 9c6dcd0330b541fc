"""A deterministic stand-in for a model: scripts from seeds, tools with a journal, and what must come of them."""

from scripted_model.app import SYSTEM, make_engine
from scripted_model.foretell import Foretold, ForetoldCall, ForetoldTurn, foretell, foretell_all
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
from scripted_model.script import BadScript, Script, from_goal, to_goal
from scripted_model.tools import make_tools
from scripted_model.workload import AGENT, ScheduledMessage, ScriptedTask, Workload, from_json, is_due

__all__ = [
    "AGENT",
    "DEFAULT_WEIGHTS",
    "SYSTEM",
    "BadScript",
    "Death",
    "Effect",
    "FileJournal",
    "Foretold",
    "ForetoldCall",
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
    "foretell",
    "foretell_all",
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
