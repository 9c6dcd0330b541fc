"""What must come of the tasks of a run: those that were loaded, and those that were born in it.

Ids of sub-agents follow from the calls that bear them, so that nobody knows them beforehand; what each is asked stands
in its log, and is a script like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import scripted_model
from invariants.evidence import Foretold, LogEntry, Outcome
from noeta.core.events import TaskCreated
from scripted_model import BadScript

BOUNDS: Final = frozenset({"model_attempts", "unknown_call", "takeovers"})
"""The bounds that faults from outside may push any task into."""


def with_children(
    told: Iterable[scripted_model.Foretold], log: Iterable[LogEntry], *, retry_attempts: int
) -> Iterator[Foretold]:
    """The laws' words for what is foretold, and for every sub-agent that the log shows."""
    roots = {one.task: one for one in told}
    yield from map(as_foretold, roots.values())
    for entry in log:
        if isinstance(entry.event, TaskCreated) and entry.event.parent_task_id is not None:
            child = foretold_child(entry.task, entry.event, roots, retry_attempts=retry_attempts)
            if child is not None:
                yield as_foretold(child)


def foretold_child(
    task: str, created: TaskCreated, roots: Mapping[str, scripted_model.Foretold], *, retry_attempts: int
) -> scripted_model.Foretold | None:
    """What must come of one sub-agent; None: its goal is no script."""
    root = roots.get(created.root_task_id or "")
    try:
        return scripted_model.foretell_child(task, created.goal, root=root, retry_attempts=retry_attempts)
    except BadScript:
        return None


def as_foretold(told: scripted_model.Foretold) -> Foretold:
    """A script's own words in the laws' words."""
    failures = tuple(turn.reason for turn in told.turns if turn.reason is not None)
    return Foretold(
        told.task,
        Outcome(told.outcome),
        reason=told.reason if told.outcome == "failed" else None,
        answer=told.answer,
        failures=failures,
        turns=len(told.turns) if told.turns_counted and not told.close_keys else None,
        calls=told.calls_per_tool,
        messages=(*told.message_keys, *told.refusable_keys),
        bounds=_own_bounds(told),
        excusable=BOUNDS,
        cancels=told.cancel_keys,
    )


def _own_bounds(told: scripted_model.Foretold) -> frozenset[str]:
    """The bounds, by the laws' names, that a script reaches without any fault from outside."""
    own = {"model_attempts"} & set(told.bounds)
    if any(call.source == "unknown" for call in told.calls):
        own.add("unknown_call")
    return frozenset(own)
