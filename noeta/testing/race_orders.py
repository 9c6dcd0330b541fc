"""What the memory store says that two moves may leave: A then B, B then A, or, if A was rolled back, B alone.

One exception, for B that skips locked rows (``SKIPPING``) and *answered while A was open*: it may have taken for absent
(renew: busy) some of the rows A names. Its answer must then be the memory store's with exactly those rows hidden while
B runs, and the state that of B before A, or B alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from noeta.backends.stores.memory import MemoryStore
from noeta.core.errors import ContentNotFound, NoetaError
from noeta.core.ids import sha256_bytes
from noeta.core.store import LogPage, Renewal, Snapshot, Store
from noeta.testing.race_scenes import BODY, SKIPPING, VERSION, Move, Stage
from noeta.testing.twins import copy_of, hiding


@dataclass(frozen=True, slots=True)
class State:
    """Everything a reader can see, of every task there is. The last two only where a move stores such."""

    pages: tuple[LogPage, ...]
    content: bytes | None = None
    snapshots: tuple[Snapshot | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pair left: both answers, and everything a reader can see."""

    first: object
    second: object
    state: State

    def differences(self, other: Outcome) -> list[str]:
        """Where they differ, a line each: ``what: mine, not theirs``."""
        lines = [
            f"{name}: {getattr(self, name)!r}, not {getattr(other, name)!r}"
            for name in ("first", "second")
            if getattr(self, name) != getattr(other, name)
        ]
        mine, theirs = ({page.row.id: page for page in one.state.pages} for one in (self, other))
        for task in sorted({*mine, *theirs}):
            lines += [f"{task}: {text}" for text in _of_pages(mine.get(task), theirs.get(task))]
        if (self.state.content, self.state.snapshots) != (other.state.content, other.state.snapshots):
            lines.append("contents or snapshots")
        return lines


def _of_pages(mine: LogPage | None, theirs: LogPage | None) -> Iterator[str]:
    if mine is None or theirs is None:
        if mine is not theirs:
            yield "not there" if mine is None else "there"
        return
    for kind in ("entries", "unread"):
        ours, others = getattr(mine, kind), getattr(theirs, kind)
        for one, other in itertools.zip_longest(ours, others):
            if one != other:
                yield f"{kind}: {one!r}, not {other!r}"
    for field in fields(mine.row):
        one, other = getattr(mine.row, field.name), getattr(theirs.row, field.name)
        if one != other:
            yield f"{field.name}: {one!r}, not {other!r}"


def allowed(
    memory: MemoryStore, stage: Stage, a: Move, b: Move, *, landed: bool, waited: bool, found: Outcome
) -> Iterator[tuple[str, Outcome]]:
    """Every outcome that some order of the two explains."""
    bodies = a.stores_bodies or b.stores_bodies
    if landed:
        store = copy_of(memory)
        first = answer_of(a, store, stage, "A")
        yield "A, B", Outcome(first, answer_of(b, store, stage, "B"), state_of(store, bodies))
    hidden_sets: list[tuple[str, ...]] = [()]
    if b.verb in SKIPPING and not waited:  # the one exception, and only when B did not wait
        hidden_sets += [s for n in range(1, len(a.tasks) + 1) for s in itertools.combinations(a.tasks, n)]
    for hidden in hidden_sets:
        store = copy_of(memory)
        with hiding(store, hidden):
            second = answer_of(b, store, stage, "B", busy=hidden)
        name = f"B without {hidden}" if hidden else "B"
        if not landed:
            yield name, Outcome(found.first, second, state_of(store, bodies))
        elif not hidden:
            yield "B, A", Outcome(answer_of(a, store, stage, "A"), second, state_of(store, bodies))
        else:  # A was first on the rows it holds, and B first on all others
            before = answer_of(a, copy_of(memory), stage, "A")
            answer_of(a, store, stage, "A")
            yield f"{name}, A", Outcome(before, second, state_of(store, bodies))


def answer_of(move: Move, store: Store, stage: Stage, word: str, *, busy: Sequence[str] = ()) -> object:
    """What a move is answered; an error by its name, for its text is no promise. ``busy``: the hidden tasks."""
    try:
        answer = move.act(store, stage, word)
    except NoetaError as error:
        return type(error).__name__
    if isinstance(answer, tuple):
        return tuple(_one_answer(one, busy) for one in answer)
    return answer


def _one_answer(one: object, busy: Sequence[str]) -> object:
    if isinstance(one, NoetaError):
        return type(one).__name__
    if isinstance(one, Renewal) and one.task_id in busy:
        return Renewal(one.task_id, "busy", now=one.now)
    return one


def state_of(store: Store, bodies: bool) -> State:
    """What can be seen. ``bodies``: contents and snapshots, too."""
    rows = store.tasks()
    state = State(tuple(store.read(row.id) for row in rows))
    if not bodies:
        return state
    try:
        content = store.get_content(sha256_bytes(BODY))
    except ContentNotFound:
        content = None
    return replace(state, content=content, snapshots=tuple(store.get_snapshot(row.id, VERSION) for row in rows))
