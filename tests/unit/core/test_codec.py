"""Values to bytes and back: what is refused, with its path, and what comes back unchanged."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noeta.core import codec, limits
from noeta.core.errors import BadInput, UnreadableLog
from noeta.core.events import ModelReplied, ToolCall, ToolFinished
from noeta.core.wake import ExternalEvent, TimerFired

STORABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=12,
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text()
    | st.binary(max_size=2)
    | st.sampled_from(["\ud800", "\x00", 2**63, -(2**63) - 1, math.nan, math.inf]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(st.text() | st.integers(0, 3), inner, max_size=3)
    ),
    max_leaves=12,
)


def event(value: Any) -> ExternalEvent:
    return ExternalEvent("kind", value)


def nested(levels: int, kind: type[list[Any]] | type[dict[str, Any]] = list) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


@given(STORABLE)
def test_a_storable_value_comes_back_unchanged(value: Any) -> None:
    body = codec.encode("item", event(value))

    found = codec.decode_item(body)
    assert isinstance(found, ExternalEvent)
    assert _same(found.payload, value)
    assert codec.encode("item", found) == body


@given(ANYTHING)
@example(2**63)
@example({1: 2})
@example(["\ud800"])
def test_check_accepts_exactly_what_can_be_encoded_and_read_back(value: Any) -> None:
    if not _passes_check(value):
        with pytest.raises(BadInput):
            codec.encode("item", event(value))
        return

    found = codec.decode_item(codec.encode("item", event(value)))
    assert isinstance(found, ExternalEvent)
    assert _same(found.payload, value)


@pytest.mark.parametrize(
    ("value", "path", "said"),
    [
        ({"a": [1, {"b": math.nan}]}, "v.a[1].b", "nan"),
        ([math.inf], "v[0]", "inf"),
        ({"n": 2**63}, "v.n", "64 bits"),
        ({"n": -(2**63) - 1}, "v.n", "64 bits"),
        (["ok", "\ud800"], "v[1]", "surrogate"),
        ({"\udfff": 1}, "v key", "surrogate"),
        ({7: 1}, "v", "keys are text"),
        ([b"x"], "v[0]", "bytes"),
        ({"s": {1, 2}}, "v.s", "set"),
        (ToolCall("1-0", "t", {"x": [math.inf]}), "v.input.x[0]", "inf"),
    ],
)
def test_a_refusal_names_the_path_and_what_was_found(value: Any, path: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        codec.check("v", value)

    assert refused.value.field == path
    assert said in refused.value.problem


@pytest.mark.parametrize("kind", [list, dict])
def test_the_depth_limit_is_exact(kind: type[list[Any]] | type[dict[str, Any]]) -> None:
    codec.check("v", nested(limits.JSON_DEPTH_MAX, kind))

    for levels in (limits.JSON_DEPTH_MAX + 1, 1_100, 100_000):
        with pytest.raises(BadInput, match=str(limits.JSON_DEPTH_MAX)) as refused:
            codec.check("v", nested(levels, kind))
        assert len(refused.value.field) <= 200


def test_the_byte_limit_is_exact() -> None:
    whole = codec.encode("e", ToolFinished("1-0", ""))
    room = limits.BODY_BYTES_MAX - len(whole)
    assert len(codec.encode("e", ToolFinished("1-0", "x" * room))) == limits.BODY_BYTES_MAX

    with pytest.raises(BadInput, match=str(limits.BODY_BYTES_MAX)):
        codec.encode("e", ToolFinished("1-0", "x" * (room + 1)))


def test_what_grows_by_escaping_is_judged_as_it_is_stored() -> None:
    with pytest.raises(BadInput):
        codec.encode("e", ToolFinished("1-0", "\x00" * (limits.BODY_BYTES_MAX // 6)))


def test_what_could_not_be_read_back_is_not_written() -> None:
    wrong: Any = 5
    with pytest.raises(BadInput, match="read back"):
        codec.encode("e", ToolFinished("1-0", wrong))


@given(STORABLE)
def test_canonical_bytes_do_not_depend_on_the_order_of_keys(value: Any) -> None:
    """Keeps: same-request."""
    assert codec.canonical({"a": value, "b": 1}) == codec.canonical({"b": 1, "a": value})


@given(st.text())
def test_escaped_text_can_always_be_stored_and_says_what_it_was(text: str) -> None:
    escaped = codec.escape_text(text)

    codec.check("text", escaped)
    if all(not 0xD800 <= ord(char) <= 0xDFFF for char in text):
        assert escaped == text


@given(ANYTHING)
def test_escaping_leaves_no_text_that_cannot_be_stored(value: Any) -> None:
    for text in _texts(codec.escape(value)):
        codec.check("text", text)


def test_escaping_too_deep_a_value_leaves_it_to_check() -> None:
    with pytest.raises(BadInput):
        codec.check("v", codec.escape(nested(100_000)))


def test_a_lone_surrogate_is_made_visible() -> None:
    assert codec.escape_text("a\ud800b") == "a\\ud800b"
    assert codec.escape({"\udfff": ["\ud800"]}) == {"\\udfff": ["\\ud800"]}


@pytest.mark.parametrize("decode", [codec.decode_event, codec.decode_item, codec.decode_condition])
def test_every_reader_tells_newer_from_damaged(decode: Any) -> None:
    with pytest.raises(UnreadableLog) as newer:
        decode('{"type":"FromTheFuture"}')
    with pytest.raises(UnreadableLog) as damaged:
        decode(
            '{"type":"TimerFired","fire_at":"soon"}' if decode is not codec.decode_event else '{"type":"ToolStarted"}'
        )
    with pytest.raises(UnreadableLog):
        decode(b"\xff\xfe")

    assert (newer.value.newer, damaged.value.newer) == (True, False)


def test_numbers_keep_their_type() -> None:
    """https://github.com/encode/django-rest-framework/issues/5235"""
    values = [1, 1.0, -0.0, True, 1e308, 2**63 - 1]
    found = codec.decode_item(codec.encode("item", event(values)))

    assert isinstance(found, ExternalEvent)
    assert [type(value) for value in found.payload] == [type(value) for value in values]
    assert math.copysign(1, found.payload[2]) == -1


def test_bodies_are_plain_json() -> None:
    body = codec.encode("e", ModelReplied("é\x00", (ToolCall("1-0", "t", {"x": 1}),), "tool_use"))

    assert json.loads(body)["text"] == "é\x00"
    assert "é" in body and "\\u0000" in body


def test_a_condition_keeps_its_instant() -> None:
    assert codec.decode_condition(codec.encode("w", TimerFired(1_700_000_000.123456))) == TimerFired(
        1_700_000_000.123456
    )


def _passes_check(value: Any) -> bool:
    try:
        codec.check("payload", value)
    except BadInput:
        return False
    return True


def _same(found: Any, value: Any) -> bool:
    """Equal, with tuples read back as lists."""
    return bool(json.dumps(found) == json.dumps(value))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return [text for child in value for text in _texts(child)]
    if isinstance(value, dict):
        return [text for key, child in value.items() for text in (str(key), *_texts(child))]
    return []
