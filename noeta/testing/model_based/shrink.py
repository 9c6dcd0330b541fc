"""Makes a failure small: leaves out calls, then parts of calls, as long as the two stores still differ.

Hypothesis could shrink, too, but by its own draws: a call left out there changes what the later ones draw, so that it
took ten times as long and left more (measured with the planted bugs). Here a call keeps its meaning when others go
before it: claims are those that its claim call is answered now, positions are counted from the end of the log and of
the inbox as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import msgspec

from noeta.core.events import Event, MessageTaken, TaskWoken
from noeta.core.store import Append, Claim, Claims, Commit, Continue, LogPage, NewTask, Suspend
from noeta.testing.model_based.calls import Call
from noeta.testing.model_based.pair import Disagreement, Found, Pair
from noeta.testing.model_based.script import Done, changed, nearest

if TYPE_CHECKING:
    from noeta.testing.contract.stage import StoreFactory

T = TypeVar("T")


def shrink(factory: StoreFactory, found: Found, is_over: Callable[[], bool]) -> Found:
    """The smallest failure that can be reached until ``is_over`` says so."""
    while not is_over():
        smaller = _without_calls(factory, found, is_over)
        smaller = _with_simpler_calls(factory, smaller, is_over)
        if smaller.size >= found.size:
            break
        found = smaller
    return found


def replay(factory: StoreFactory, steps: Sequence[Done], *, takes_move: bool = True) -> Found | None:
    """The same steps on both stores from the beginning: the difference, if there still is one.

    ``takes_move``: items to take are counted from the end of the inbox, too; that is right if an item before them is
    left out, and wrong if one after them is.
    """
    pair = Pair(factory, lambda name: None)
    claims: dict[Claim, Claim] = {}
    try:
        for done in steps:
            answer = pair.do(_as_of_now(done, claims, pair.pages, takes_move=takes_move))
            if isinstance(done.answer, Claims) and isinstance(answer, Claims):
                claims.update(zip(done.answer.claims, answer.claims, strict=False))
    except Disagreement as disagreement:
        return disagreement.found
    return None


def _without_calls(factory: StoreFactory, found: Found, is_over: Callable[[], bool]) -> Found:
    size = len(found.steps) // 2
    while size:
        start = len(found.steps) - size
        while start >= 0 and not is_over():
            rest = (*found.steps[:start], *found.steps[start + size :])
            for takes_move in (True, False):
                again = replay(factory, rest, takes_move=takes_move)
                if again is not None and again.size < found.size:
                    found = again
                    break
            start = min(start, len(found.steps)) - size
        size //= 2
    return found


def _with_simpler_calls(factory: StoreFactory, found: Found, is_over: Callable[[], bool]) -> Found:
    place = 0
    while place < len(found.steps):
        for step in _simpler(found.steps[place].call):
            if is_over():
                return found
            done = replace(found.steps[place], call=step)
            others = (*found.steps[:place], done, *found.steps[place + 1 :])
            again = replay(factory, others) or replay(factory, others, takes_move=False)
            if again is not None and again.size < found.size:
                found = again
                break
        else:
            place += 1
    return found


def _simpler(step: Call) -> Iterator[Call]:
    """The same call with one thing less."""
    if step.on_other:
        yield replace(step, on_other=False)
    for name, _ in step.options:
        if name != "token":  # a store would make one, and no two make the same
            yield replace(step, options=tuple(one for one in step.options if one[0] != name))
    match step.verb, step.arguments:
        case "append", (Claim() as claim, seq, Commit() as commit):
            for simpler in _simpler_commits(commit):
                yield replace(step, arguments=(claim, seq, simpler))
        case "append_many", (list() as members,):
            yield from (replace(step, arguments=(less,)) for less in _less(members))
            for place, member in enumerate(members):
                for simpler in _simpler_commits(member.commit):
                    one = replace(member, commit=simpler)
                    yield replace(step, arguments=([*members[:place], one, *members[place + 1 :]],))
        case "renew", (list() as claims, seconds):
            yield from (replace(step, arguments=(less, seconds)) for less in _less(claims))
        case "claim", (worker, queues, seconds) if queues is not None:
            yield replace(step, arguments=(worker, None, seconds))
        case "create", (NewTask() as task,):
            yield replace(step, arguments=(NewTask(task.id, task.agent, task.goal),))


def _simpler_commits(commit: Commit) -> Iterator[Commit]:
    empty: dict[str, object] = {"entries": (), "children": (), "posts": (), "contents": (), "next": Continue()}
    for name, nothing in empty.items():
        if getattr(commit, name) != nothing:
            yield replace(commit, **{name: nothing})  # type: ignore[arg-type]
    if isinstance(commit.next, Suspend):
        for simpler in (replace(commit.next, keep=False), replace(commit.next, again=False)):
            if simpler != commit.next:
                yield replace(commit, next=simpler)
    yield from (replace(commit, children=tuple(less)) for less in _less(list(commit.children)))


def _less(several: list[T]) -> Iterator[list[T]]:
    if len(several) > 1:
        for place in range(len(several)):
            yield [*several[:place], *several[place + 1 :]]


def _as_of_now(done: Done, claims: Mapping[Claim, Claim], pages: Mapping[str, LogPage], *, takes_move: bool) -> Call:
    """The call with today's claims, and its positions as far from the ends as they were."""
    step = done.call

    def append(claim: Claim, seq: int, commit: Commit) -> tuple[Claim, int, Commit]:
        page = pages.get(claim.task_id)
        last_seq, inbox_seq = done.ends.get(claim.task_id, (0, 0))
        further = page.row.last_seq - last_seq if page is not None and last_seq else 0
        newer = page.row.inbox_seq - inbox_seq if page is not None and last_seq else 0
        entries = tuple(_taking(entry, newer if takes_move else 0) for entry in commit.entries)
        moved = replace(commit, entries=entries, inbox_seen=max(0, commit.inbox_seen + newer))
        return _claim_now(claim, claims), max(0, seq + further), moved

    match step.verb, step.arguments:
        case "append", (Claim() as claim, int() as seq, Commit() as commit):
            return replace(step, arguments=append(claim, seq, commit))
        case "append_many", (list() as members,):
            return replace(step, arguments=([Append(*append(m.claim, m.expected_seq, m.commit)) for m in members],))
        case "renew", (list() as several, seconds):
            return replace(step, arguments=([_claim_now(claim, claims) for claim in several], seconds))
        case _, (Claim() as claim, *others):
            return replace(step, arguments=(_claim_now(claim, claims), *others))
    return step


def _claim_now(claim: Claim, claims: Mapping[Claim, Claim]) -> Claim:
    """What this claim is today; a forged one is made again from the one it was made from."""
    model = nearest(claim, claims)
    if model is None:
        return claim
    differs = dict(changed(model, claim))
    now = claims[model]
    if "epoch" in differs:
        differs["epoch"] = max(0, now.epoch + claim.epoch - model.epoch)
    return replace(now, **differs)  # type: ignore[arg-type]


def _taking(entry: Event, newer: int) -> Event:
    match entry:
        case MessageTaken(number=number):
            return msgspec.structs.replace(entry, number=max(0, number + newer))
        case TaskWoken(numbers=numbers):
            return msgspec.structs.replace(entry, numbers=tuple(max(0, number + newer) for number in numbers))
    return entry
