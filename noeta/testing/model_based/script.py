"""Steps as a test: the calls in their order, with what the true store answers at the last of them.

The text is a whole Python module with one test that asks for a ``StoreFactory`` by the fixture ``store_factory``. It
fails on the store in which the difference was found and passes on one that answers as the reference does. Claims are
named where they are answered, and instants are counted from where the store's clock began.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Final

import msgspec

from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.store import Claim, Claims
from noeta.testing.model_based.calls import ADVANCE, Call, Refused
from noeta.testing.model_based.picture import Difference

WIDTH: Final = 110
INDENT: Final = "    "
FAR_MICROS: Final = 20 * 365 * 24 * 3600 * MICROS_PER_SECOND
"""Integers that near to the beginning are instants: no counter of a test gets there, and no delay is that long."""


@dataclass(frozen=True, slots=True)
class Done:
    """A step with the reference's answer. ``ends``: last seq and newest inbox number of each task before it."""

    call: Call
    answer: object
    ends: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Group:
    """Text with parts that may stand on lines of their own."""

    head: str
    parts: tuple[str | Group, ...]
    tail: str


Text = str | Group


@dataclass(slots=True)
class Writer:
    """Writes values as Python, and remembers the names they need. ``began``: the clock's first instant."""

    began: int
    claims: dict[Claim, str] = field(default_factory=dict)
    imports: set[tuple[str, str]] = field(default_factory=set)
    used: set[str] = field(default_factory=set)

    def write(self, value: object) -> Text:
        match value:
            case Claim():
                return self._claim(value)
            case Enum():
                return f"{self._named(type(value))}.{value.name}"
            case bool():
                return repr(value)
            case str():
                return _quoted(value)
            case dict():
                parts = tuple(_with_head(f"{_quoted(key)}: ", self.write(one)) for key, one in value.items())
                return Group("{", parts, "}")
            case int():
                return self._instant(value) if abs(value - self.began) < FAR_MICROS else repr(value)
            case float():
                return self._seconds(value)
            case tuple():
                parts = tuple(map(self.write, value))
                return Group("(", parts, ",)" if len(parts) == 1 else ")")
            case list():
                return Group("[", tuple(map(self.write, value)), "]")
            case msgspec.Struct():
                return self._object(value, _struct_fields(value))
            case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
                return self._object(value, _dataclass_fields(value))
            case _:
                return repr(value)

    def call(self, step: Call) -> Text:
        """The expression that makes this call."""
        if step.verb == ADVANCE:
            return f"clock.advance({step.arguments[0]!r})"
        options = tuple(_with_head(f"{name}=", self.write(value)) for name, value in step.options)
        handle = self._use("other" if step.on_other else "store")
        return Group(f"{handle}.{step.verb}(", (*map(self.write, step.arguments), *options), ")")

    def _object(self, value: object, fields: Iterator[tuple[str, bool, object]]) -> Text:
        """Required fields by place, the others by name unless they have their default."""
        parts: list[Text] = []
        for name, required, default in fields:
            found = getattr(value, name)
            if required:
                parts.append(self.write(found))
            elif found != default:
                parts.append(_with_head(f"{name}=", self.write(found)))
        return Group(f"{self._named(type(value))}(", tuple(parts), ")")

    def _claim(self, claim: Claim) -> Text:
        """By its name; one that no store ever gave, as the one it was made from with other fields."""
        if claim in self.claims:
            return self._use(self.claims[claim])
        model = nearest(claim, self.claims)
        if model is None:
            return self._object(claim, _dataclass_fields(claim))
        fields = tuple(_with_head(f"{name}=", self.write(value)) for name, value in changed(model, claim))
        self.imports.add(("dataclasses", "replace"))
        return Group("replace(", (self._use(self.claims[model]), *fields), ")")

    def _instant(self, micros: int) -> str:
        ahead = micros - self.began
        began = self._use("began")
        return f"{began} {'+' if ahead > 0 else '-'} {abs(ahead):_}" if ahead else began

    def _seconds(self, seconds: float) -> str:
        began = self.began / MICROS_PER_SECOND
        ahead = round(seconds - began, 6)
        if abs(ahead) * MICROS_PER_SECOND >= FAR_MICROS or began + ahead != seconds:
            return repr(seconds)
        return f"{self._use('start')} {'+' if ahead >= 0 else '-'} {abs(ahead)!r}"

    def _named(self, kind: type) -> str:
        self.imports.add((kind.__module__, kind.__name__))
        return kind.__name__

    def _use(self, name: str) -> str:
        self.used.add(name)
        return name


def script(began: int, steps: Sequence[Done], last: Call, reference: object, difference: Difference) -> str:
    """A test that makes these calls, then ``last``, and asserts what the reference answers to it where they differ.

    Lines are written from the last to the first: only then it is known which claims a later one names.
    """
    writer = Writer(began)
    numbers = count(1)
    named = [
        {claim: f"claim_{next(numbers)}" for claim in done.answer.claims} if isinstance(done.answer, Claims) else {}
        for done in steps
    ]
    for names in named:
        writer.claims.update(names)
    blocks = [_last_lines(writer, last, reference, difference)]
    for done, names in zip(reversed(steps), reversed(named), strict=True):
        blocks.append(_lines(writer, done, [*names.values()]))
    body = [line for block in reversed(blocks) for line in block]
    return "\n".join([*_head(writer), *_beginning(writer), *(f"{INDENT}{line}" for line in body)]) + "\n"


def nearest(claim: Claim, known: Iterable[Claim]) -> Claim | None:
    """The known claim that this one is, or was made from: the one that differs in the fewest fields."""
    return min(known, key=lambda one: len(changed(one, claim)), default=None)


def changed(model: Claim, claim: Claim) -> list[tuple[str, object]]:
    """The fields in which a claim differs from another, with its values."""
    names = [one.name for one in dataclasses.fields(claim)]
    return [(name, getattr(claim, name)) for name in names if getattr(claim, name) != getattr(model, name)]


def _lines(writer: Writer, done: Done, names: Sequence[str]) -> list[str]:
    if isinstance(done.answer, Refused):
        writer.imports.add(("noeta.core.errors", done.answer.kind))
        writer.used.add("pytest")
        return [f"with pytest.raises({done.answer.kind}):", *_laid_out(writer.call(done.call), INDENT)]
    text = writer.call(done.call)
    if not writer.used.isdisjoint(names):
        targets = ", ".join(name if name in writer.used else "_" for name in names)
        text = _with_tail(_with_head(f"({targets},) = " if len(names) == 1 else f"{targets} = ", text), ".claims")
    return _laid_out(text, "")


def _last_lines(writer: Writer, last: Call, reference: object, difference: Difference) -> list[str]:
    if last.verb == ADVANCE:
        expected = writer.write(reference)
        return [*_laid_out(writer.call(last), ""), *_laid_out(_with_head("assert clock.now() == ", expected), "")]
    if isinstance(reference, Refused):
        writer.imports.add(("noeta.core.errors", "NoetaError"))
        writer.used.add("pytest")
        lines = ["with pytest.raises(NoetaError) as refused:", *_laid_out(writer.call(last), INDENT)]
        return [*lines, f"assert refused.value.code == {_quoted(reference.code)}"]
    relation = "is" if difference.reference is None or isinstance(difference.reference, bool) else "=="
    expected = writer.write(difference.reference)
    return [
        *_laid_out(_with_head("answer = ", writer.call(last)), ""),
        *_laid_out(_with_head(f"assert {difference.of('answer')} {relation} ", expected), ""),
    ]


def _beginning(writer: Writer) -> list[str]:
    lines = [
        "def test_the_store_answers_as_the_reference(store_factory: StoreFactory) -> None:",
        f"{INDENT}store, clock = store_factory.make(), store_factory.clock()",
    ]
    if not writer.used.isdisjoint({"start", "began"}):
        lines.append(f"{INDENT}start = clock.now()")
    if "began" in writer.used:
        lines.append(f"{INDENT}began = micros(start)")
    if "other" in writer.used:
        lines.append(f"{INDENT}other = store_factory.another()")
    return lines


def _head(writer: Writer) -> list[str]:
    if "began" in writer.used:
        writer.imports.add(("noeta.core.ids", "micros"))
    writer.imports.add(("noeta.testing.store_contract", "StoreFactory"))
    by_module: dict[str, list[str]] = {}
    for module, name in sorted(writer.imports):
        by_module.setdefault(module, []).append(name)
    ours = [f"from {module} import {', '.join(names)}" for module, names in by_module.items() if "noeta" in module]
    others = [
        f"from {module} import {', '.join(names)}" for module, names in by_module.items() if "noeta" not in module
    ]
    if others:
        others.append("")
    if "pytest" in writer.used:
        others += ["import pytest", ""]
    return ["from __future__ import annotations", "", *others, *ours, "", ""]


def _quoted(text: str) -> str:
    """As the formatter would write it."""
    plain = repr(text)
    return plain if '"' in plain or "\\" in plain else f'"{plain[1:-1]}"'


def _laid_out(text: Text, indent: str) -> list[str]:
    """On one line if it fits, otherwise its parts on lines of their own."""
    flat = _flat(text)
    if isinstance(text, str) or not text.parts or len(indent) + len(flat) <= WIDTH:
        return [indent + flat]
    lines = [indent + text.head]
    for part in text.parts:
        inner = _laid_out(part, indent + INDENT)
        lines += [*inner[:-1], inner[-1] + ","]
    return [*lines, indent + text.tail.lstrip(",")]


def _flat(text: Text) -> str:
    return text if isinstance(text, str) else text.head + ", ".join(map(_flat, text.parts)) + text.tail


def _with_head(head: str, text: Text) -> Text:
    return head + text if isinstance(text, str) else Group(head + text.head, text.parts, text.tail)


def _with_tail(text: Text, tail: str) -> Text:
    return text + tail if isinstance(text, str) else Group(text.head, text.parts, text.tail + tail)


def _dataclass_fields(value: object) -> Iterator[tuple[str, bool, object]]:
    """Name, whether it is required, default."""
    assert dataclasses.is_dataclass(value)
    for one in dataclasses.fields(value):
        yield one.name, one.default is dataclasses.MISSING, one.default


def _struct_fields(value: msgspec.Struct) -> Iterator[tuple[str, bool, object]]:
    for one in msgspec.structs.fields(value):
        yield one.name, one.required, one.default
