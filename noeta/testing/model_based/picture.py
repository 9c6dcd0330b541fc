"""All that can be seen of a store, as the reads that show it, and where two answers differ, field by field."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from noeta.core import limits
from noeta.testing.model_based.calls import Call, Refused, call

LIST_TASKS = call("tasks", limit=limits.PAGE_ENTRIES_MAX)


def reads_of_tasks(ids: Sequence[str]) -> Iterator[Call]:
    """The reads that show every row, entry and unread item. Rows are read twice, from the list and with the log: a
    store may keep them in two places."""
    yield LIST_TASKS
    for id in ids:
        yield call("read", id)


def reads_of_bodies(ids: Sequence[str], versions: Sequence[str], hashes: Sequence[str]) -> Iterator[Call]:
    """The reads that show every snapshot and content."""
    for id in ids:
        for version in versions:
            yield call("get_snapshot", id, version)
    for hash in hashes:
        yield call("get_content", hash)


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two answers differ. ``path`` goes behind the expression for the answer; ``{}`` in it stands
    for that expression, where it is not a prefix."""

    path: str
    reference: object
    candidate: object

    def of(self, answer: str) -> str:
        """The expression for this field, given the one for the answer."""
        return self.path.format(answer)


def differences(reference: object, candidate: object, path: str = "{}") -> Iterator[Difference]:
    """Every field in which the candidate's answer is not the reference's; types count, so that 1 is not True."""
    if isinstance(reference, Refused) or isinstance(candidate, Refused) or type(reference) is not type(candidate):
        yield from _different_kinds(reference, candidate, path)
    elif isinstance(reference, tuple | list):
        assert isinstance(candidate, tuple | list)
        if len(reference) != len(candidate):
            yield Difference(f"len({path})", len(reference), len(candidate))
        for place, (mine, theirs) in enumerate(zip(reference, candidate, strict=False)):
            yield from differences(mine, theirs, f"{path}[{place}]")
    elif isinstance(reference, dict):
        if reference != candidate:
            yield Difference(path, reference, candidate)
    elif names := _field_names(type(reference)):
        for name in names:
            yield from differences(getattr(reference, name), getattr(candidate, name), f"{path}.{name}")
    elif reference != candidate:
        yield Difference(path, reference, candidate)


def _different_kinds(reference: object, candidate: object, path: str) -> Iterator[Difference]:
    kinds = [one.kind if isinstance(one, Refused) else type(one).__name__ for one in (reference, candidate)]
    if reference is None or candidate is None:
        yield Difference(path, reference, candidate)
    elif kinds[0] != kinds[1]:
        yield Difference(f"type({path}).__name__", *kinds)
    elif isinstance(reference, Refused) and isinstance(candidate, Refused) and reference.code != candidate.code:
        yield Difference(f"{path}.code", reference.code, candidate.code)


def _field_names(kind: type[object]) -> tuple[str, ...]:
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return ()
