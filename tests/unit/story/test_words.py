"""Every kind of entry has words, every entry of any log is told once, nothing that a terminal obeys comes through."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noeta.core import codec
from noeta.core.events import Entry, Event, ModelReplied, TaskSuspended, ToolFinished
from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.wake import ExternalEvent, HumanResponseReceived
from noeta.story.entries import Teller
from noeta.story.excerpt import excerpt
from noeta.story.lines import WIDTH_MIN, story_lines
from noeta.story.parts import Between, Claimed, LeftOut, Line, Mark, Seen, Struck
from noeta.story.tell import tell
from noeta.story.text import clock, quoted, span, value
from noeta.story.words import item, wait
from tests.unit.story.logs import SAMPLES, Dated, log_of, second

EPOCHS = st.integers(0, 4)
DATED = st.tuples(EPOCHS, st.floats(0, 1e6), st.sampled_from(list(SAMPLES.values())))
LOGS = st.lists(DATED, min_size=1, max_size=30)
MARKS = st.lists(
    st.builds(Mark, st.integers(second(-9), second(1e6)), st.just("struck"), st.none() | EPOCHS), max_size=4
)
SEEN = st.builds(
    Seen,
    st.dictionaries(EPOCHS, st.just("w1")),
    st.dictionaries(EPOCHS, st.just(("it was given back",))),
    MARKS,
    st.integers(0, 6),
    st.booleans(),
)


def test_there_is_a_sample_of_every_kind() -> None:
    assert set(SAMPLES) == set(get_args(Event))


@pytest.mark.parametrize("event", SAMPLES.values(), ids=lambda event: type(event).__name__)
def test_every_kind_has_words_on_one_line(event: Event) -> None:
    words = Teller().tell(event)

    assert words
    assert words.isprintable()
    assert type(event).__name__ not in words, "the name of a class is no plain word"


@given(LOGS, SEEN)
def test_every_entry_is_told_once_and_in_its_place(dated: list[Dated], seen: Seen) -> None:
    """Whatever the log looks like: the stories that matter most are of logs that break their laws."""
    log = log_of(*dated)
    parts = tell(log, seen)

    assert [part.entry for part in parts if isinstance(part, Line)] == log
    heading = Claimed(-1, "")
    for part in parts:
        if isinstance(part, Claimed):
            heading = part
        elif isinstance(part, Line):
            assert part.entry.epoch == heading.epoch


@given(LOGS, SEEN)
def test_every_fault_that_hit_a_claim_of_the_log_is_told_once(dated: list[Dated], seen: Seen) -> None:
    """One of a claim that wrote nothing may be older than the log, or newer: then there is no place for it."""
    log = log_of(*dated)
    epochs = {entry.epoch for entry in log}
    told = Counter(part.at for part in tell(log, seen) if isinstance(part, Struck))

    assert Counter(mark.at for mark in seen.marks if mark.epoch is None or mark.epoch in epochs) <= told
    assert told <= Counter(mark.at for mark in seen.marks)


@given(LOGS, st.integers(WIDTH_MIN, 200))
def test_no_line_is_wider_than_asked(dated: list[Dated], width: int) -> None:
    lines = story_lines(tell(log_of(*dated)), width)

    assert max(len(line.text) for line in lines) <= width


@given(LOGS, st.integers(0, 30), st.integers(5, 40))
def test_an_excerpt_is_bounded_and_keeps_what_it_is_about(dated: list[Dated], seq: int, most: int) -> None:
    parts = tell(log_of(*dated))
    shown = excerpt(parts, {seq}, (), most=most)
    left_out = sum(part.lines for part in shown if isinstance(part, LeftOut))

    assert len(shown) <= most
    assert len(shown) - sum(isinstance(part, LeftOut) for part in shown) + left_out == len(parts)
    if 1 <= seq <= len(dated):
        assert seq in [part.entry.seq for part in shown if isinstance(part, Line)]


def test_an_excerpt_of_nothing_is_empty() -> None:
    assert excerpt([], (), (), most=5) == []


def test_an_excerpt_shows_what_was_written_last_by_an_instant() -> None:
    parts = tell(log_of(*((1, float(n), SAMPLES[ToolFinished]) for n in range(50))))
    shown = excerpt(parts, (), [second(20.5)], most=6)

    assert 21 in [part.entry.seq for part in shown if isinstance(part, Line)]
    assert isinstance(shown[0], Claimed)


def test_a_jump_in_the_log_is_told() -> None:
    event = TaskSuspended(HumanResponseReceived("pin"))
    log = [Entry(seq, 1, second(seq), event, codec.encode("entry", event)) for seq in (1, 4)]

    assert "the log jumps from seq 1 to 4" in [part.words for part in tell(log) if isinstance(part, Between)]


@pytest.mark.parametrize("text", ["a\x1b[2Jb", "a\nb", "\x9bx", "\u202ex", "\u2028"])
def test_what_a_terminal_would_obey_is_escaped(text: str) -> None:
    shown = [quoted(text), value({"key": text}), Teller().tell(ModelReplied(text)), item(ExternalEvent(text, text))]

    assert all(one.isprintable() for one in shown), shown


def test_a_long_text_says_how_much_is_left_out() -> None:
    assert quoted("x" * 1_200, most=5) == '"xxxxx"… (1,195 more characters)'
    assert value("x" * 4, most=5) == '"xxxx… (1 more character)'
    assert quoted("xxxxx", most=5) == '"xxxxx"'


@pytest.mark.parametrize(
    ("seconds", "words", "column"),
    [
        (0.0042, "0.004 s", "+0.004"),
        (2.34, "2.3 s", "+2.340"),
        (182.5, "3 min 02 s", "+3:02.500"),
        (10_800, "3 h 00 min", "+3:00:00.000"),
        (190_000, "2 d 04 h", "+2d 4:46:40.000"),
        (-2.5, "-2.5 s", "-2.500"),
    ],
)
def test_spans_read_well(seconds: float, words: str, column: str) -> None:
    micros = round(seconds * MICROS_PER_SECOND)

    assert (span(micros), clock(micros)) == (words, column)


def test_a_wait_for_a_message_names_the_cron_table() -> None:
    waits = HumanResponseReceived(timeout_at=1_700_000_000.0)

    assert wait(waits) == "a message, or its cron table, at 2023-11-14 22:13:20Z"
    assert item(waits) == "its cron table"
    assert wait(HumanResponseReceived()) == "a message"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (ToolFinished("3-0", "x", is_error=True), 'call 3-0 failed: "x"'),
        (ToolFinished("3-0", "x", is_error=True, source="woken"), 'call 3-0 has its answer, an error: "x"'),
        (ToolFinished("3-0", "x", source="dreamt"), 'call 3-0 has its result (dreamt): "x"'),
    ],
)
def test_a_result_says_how_it_came_about(event: Event, words: str) -> None:
    assert Teller().tell(event) == words
