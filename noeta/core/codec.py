"""Values to bytes and back: the only place that knows JSON.

Encoding keeps bytes: the same value gives the same text, and stores keep that text as it is (`json`, never
`jsonb`). ``check`` walks a value before it is encoded, because the encoder writes NaN as null without a word
and fails without a path on lone surrogates.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from noeta.core import limits
from noeta.core.errors import BadInput, UnreadableLog
from noeta.core.events import EVENT_TYPES, Entry, Event
from noeta.core.wake import Item, WakeCondition

_encoder = msgspec.json.Encoder()
_canonical = msgspec.json.Encoder(order="deterministic")
_event_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_item_decoder: msgspec.json.Decoder[Item] = msgspec.json.Decoder(Item)
_condition_decoder: msgspec.json.Decoder[WakeCondition] = msgspec.json.Decoder(WakeCondition)
_any_decoder: msgspec.json.Decoder[Event | Item] = msgspec.json.Decoder(Event | Item)
_tag_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def check(field: str, value: Any, *, bytes_max: int = limits.BODY_BYTES_MAX) -> None:
    """Refuse a value that not every store can hold and give back unchanged.

    Walks without recursion. Refuses: nesting beyond ``JSON_DEPTH_MAX``; NaN and infinities; integers beyond
    64 bits; lone surrogates; keys that are not text; types JSON has no word for; text alone longer than
    ``bytes_max``.

    Raises:
        BadInput: with the path to the offending value, the limit and what was found.
    """
    text_bytes = 0
    todo: list[tuple[str, Any, int]] = [(field, value, 0)]
    while todo:
        path, node, depth = todo.pop()
        if depth > limits.JSON_DEPTH_MAX:
            raise BadInput(_shorten(path), f"nesting deeper than {limits.JSON_DEPTH_MAX} levels")
        match node:
            case None | bool() | msgspec.UnsetType():
                pass
            case str():
                text_bytes += _utf8_length(path, node)
            case int():
                if not -limits.INTEGER_MAX - 1 <= node <= limits.INTEGER_MAX:
                    raise BadInput(_shorten(path), f"integers fit 64 bits, found one of {node.bit_length()} bits")
            case float():
                if not math.isfinite(node):
                    raise BadInput(_shorten(path), f"must be a finite number, found {node!r}")
            case list() | tuple():
                todo.extend((f"{path}[{index}]", child, depth + 1) for index, child in enumerate(node))
            case dict():
                for key, child in node.items():
                    if not isinstance(key, str):
                        raise BadInput(_shorten(path), f"keys are text, found {key!r}")
                    text_bytes += _utf8_length(f"{path} key", key)
                    todo.append((f"{path}.{key}", child, depth + 1))
            case msgspec.Struct():
                todo.extend((f"{path}.{name}", getattr(node, name), depth + 1) for name in node.__struct_fields__)
            case _:
                raise BadInput(_shorten(path), f"no JSON value, found {type(node).__name__}")
        if text_bytes > bytes_max:
            raise BadInput(field, f"at most {bytes_max} bytes, found more than {text_bytes}")


def encode(field: str, value: Event | Item | WakeCondition, *, bytes_max: int = limits.BODY_BYTES_MAX) -> str:
    """Check and encode one body; the same value gives the same text, always.

    Raises:
        BadInput: as ``check``; the encoded body is longer than ``bytes_max``; or this version could not read it
            back: nothing is written that no later fold can process.
    """
    check(field, value, bytes_max=bytes_max)
    body = _encoder.encode(value)
    if len(body) > bytes_max:
        raise BadInput(field, f"at most {bytes_max} bytes encoded, found {len(body)}")
    try:
        _any_decoder.decode(body)
    except msgspec.DecodeError as error:
        raise BadInput(field, f"could not be read back: {error}") from error
    return body.decode()


def encoded_bytes(text: str) -> int:
    """How long a text is in a body, its quotes and escapes included."""
    return len(_encoder.encode(text))


def cut(text: str, bytes_max: int, notice: str) -> str:
    """The text, or as much of it as fits once it is encoded (control characters take six bytes each), followed by a
    notice that names ``{chars}`` and ``{kept}``."""
    size = encoded_bytes(text)
    if size <= bytes_max:
        return text
    kept = text
    while (size := encoded_bytes(kept)) > bytes_max:
        kept = kept[: int(len(kept) * bytes_max / size * 0.99)]
    return kept + notice.format(chars=len(text), kept=len(kept))


def canonical(value: Any) -> bytes:
    """The bytes of a value with its keys sorted: what a request's hash is taken over."""
    return _canonical.encode(value)


def decode_event(body: str | bytes) -> Event:
    """One entry's event.

    Raises:
        UnreadableLog: ``newer`` if its type is not in this version's vocabulary, otherwise damaged.
    """
    try:
        return _event_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableLog(f"an entry cannot be read: {error}", newer=_is_newer(body)) from error


def decode_item(body: str | bytes) -> Item:
    """One inbox item, from the bytes it was posted with."""
    try:
        return _item_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableLog(f"an inbox item cannot be read: {error}", newer=_is_newer(body)) from error


def decode_condition(body: str | bytes) -> WakeCondition:
    """What a suspended row waits for."""
    try:
        return _condition_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableLog(f"a wake condition cannot be read: {error}", newer=_is_newer(body)) from error


def decode_entry(seq: int, epoch: int, at: int, body: str) -> Entry:
    """One stored row of a log as an entry."""
    return Entry(seq=seq, epoch=epoch, at=at, event=decode_event(body), body=body)


def escape_text(text: str) -> str:
    """Text from outside (a model, a tool, a person) with what UTF-8 cannot carry made visible.

    Lone surrogates become ``\\udXXX`` as six plain characters, so that no later write fails on them.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def escape(value: Any) -> Any:
    """A JSON value with every text in it escaped as ``escape_text`` does; too deep a value is left for ``check``."""
    return _escape(value, 0)


def _escape(value: Any, depth: int) -> Any:
    if depth > limits.JSON_DEPTH_MAX:
        return value
    match value:
        case str():
            return escape_text(value)
        case list() | tuple():
            return [_escape(child, depth + 1) for child in value]
        case dict():
            return {escape_text(str(key)): _escape(child, depth + 1) for key, child in value.items()}
        case _:
            return value


def _is_newer(body: str | bytes) -> bool:
    try:
        tag = msgspec.json.decode(_tag_decoder.decode(body)["type"], type=str)
    except (msgspec.DecodeError, KeyError, UnicodeDecodeError):
        return False
    return tag not in EVENT_TYPES


def _utf8_length(path: str, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise BadInput(
            _shorten(path), f"must not contain a lone surrogate, found one at character {error.start}"
        ) from error


def _shorten(path: str) -> str:
    return path if len(path) <= 200 else f"{path[:120]}…{path[-60:]}"
