"""Giving a task what somebody says to it, and saying what became of it: the first answer to a question counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from noeta.commands.tasks.hints import word
from noeta.commands.tasks.known import Known, until_known
from noeta.commands.tasks.looking import Seen, is_over, item_of, questions
from noeta.commands.tasks.place import Refused
from noeta.core import codec
from noeta.core.store import Posted
from noeta.core.task import Status
from noeta.core.wake import HumanResponseReceived, Item
from noeta.runtime.dispatcher import Dispatcher
from noeta.story.text import name

ANSWER_ID: Final = "answer"
"""The message id of every answer: the first answer to a question counts, another is a repeat."""

HAS_ENDED: Final = "nothing more will happen to it; create a new task"


@dataclass(frozen=True, slots=True)
class Given:
    """What became of an answer, in words. ``note``: what is odd about it, if something is."""

    posted: Posted
    words: str
    note: str | None


def give(dispatcher: Dispatcher, seen: Seen, handle: str, text: str, what: str) -> Given:
    """Answer a question of a task. ``what`` the answer is, to a person.

    Raises:
        Refused: the task has ended, or waits for this answer no more, or has another one.
    """
    task_id = seen.row.id
    if seen.row.status is not Status.TERMINAL and is_over(seen, handle):
        raise Refused(f"{name(task_id)} does not wait for {name(handle)} any more: nothing was written")
    known = until_known(
        dispatcher.world,
        lambda: dispatcher.say(task_id, text, message_id=ANSWER_ID, handle=handle),
        f"with --handle {word(handle)}",
    )
    item = HumanResponseReceived(handle, text)
    words = became(dispatcher, task_id, known, item, what, "answer", name(handle))
    is_kept = known.answer.outcome == "stored" and not known.answer.made_ready
    is_early = is_kept and handle not in [one.handle for one in questions(seen)]
    note = f"it does not ask {name(handle)} now; the answer is kept until it does" if is_early else None
    return Given(known.answer, words, note)


def became(
    dispatcher: Dispatcher, task_id: str, known: Known[Posted], item: Item, what: str, says: str, key: str
) -> str:
    """What became of the item, in words. ``what`` it is and ``says``, to a person; ``key``: what tells repeats.

    Raises:
        Refused: the task has ended, or another item came under this key.
    """
    id, posted = name(task_id), known.answer
    if posted.outcome == "ended":
        raise Refused(f"{id} has ended, the {what} was not taken: {HAS_ENDED}")
    if posted.outcome == "stored":
        then = "it may go on now" if posted.made_ready else "it is read when the task comes to it"
        return f"{id} has the {what} as item {posted.number}: {then}"
    first = item_of(dispatcher.store, task_id, posted.number)
    if first is None:
        return f"{key} is known already: nothing changed"
    if codec.canonical(first) != codec.canonical(item):
        raise Refused(f"another {says} is known under {key}: yours was dropped")
    if known.after_unknown:
        return f"{id} has the {what}: the first try had landed"
    return already(key, says)


def already(key: str, says: str) -> str:
    """What is said of a repeat."""
    return f"{key} has this {says} already: nothing changed"
