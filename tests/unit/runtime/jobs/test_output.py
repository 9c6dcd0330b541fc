"""What is kept of a job's output: the newest, exactly counted, while it is written too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from noeta.core.jobs import OUTPUT_BYTES_KEPT, OUTPUT_CHARS_TOLD, JobOutput, Jobs, JobSpec
from noeta.runtime.jobs.output import CHUNK_BYTES, Read, RingReader, RingWriter, as_text, make_ring, newest, page
from tests.unit.runtime.jobs.stage import LONG, children_named, claim_held, job_table, wait_ends, wait_until

KEPT = 1000


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    with job_table() as (table, world):
        yield table.of(claim_held(world, LONG))


class Ring:
    """Both sides of a ring that keeps ``KEPT`` bytes, and a pipe to write through."""

    def __init__(self) -> None:
        ring = make_ring(KEPT)
        self.writer, self.reader = RingWriter(ring), RingReader(ring)
        os.close(ring)
        self.source, self.sink = os.pipe()

    def write(self, data: bytes) -> None:
        while data:
            written = os.write(self.sink, data[:CHUNK_BYTES])
            data, left = data[written:], written
            while left:
                left -= self.writer.take(self.source)

    def close(self) -> None:
        os.close(self.source)
        os.close(self.sink)


@pytest.fixture
def ring() -> Iterator[Ring]:
    made = Ring()
    yield made
    made.close()


def test_all_is_there_until_it_is_too_much_and_then_the_newest(ring: Ring) -> None:
    """Whatever the sizes of the writes, and wherever the ring begins anew."""
    written = b""
    assert ring.reader.read() == Read(b"", 0, 0)
    for size in (1, 7, KEPT - 8, 1, 500, 40_000, CHUNK_BYTES, 3, 100_000, 999):
        data = bytes((len(written) + at) % 251 for at in range(size))
        written += data

        ring.write(data)

        start = max(0, len(written) - KEPT)
        assert ring.reader.read() == Read(written[start:], start, len(written))


def test_a_read_can_begin_where_another_came_to(ring: Ring) -> None:
    ring.write(b"0123456789")

    assert ring.reader.read(4) == Read(b"456789", 4, 10)
    assert ring.reader.read(10) == Read(b"", 10, 10)
    assert ring.reader.read(99) == Read(b"", 10, 10)
    ring.write(b"x" * 2 * KEPT)
    assert ring.reader.read(4).start == 10 + KEPT


def test_a_reader_never_gets_bytes_that_were_written_over_meanwhile(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer goes on while the reader copies: what is given back is a stretch of what was written."""
    ring.write(bytes(at % 251 for at in range(KEPT + CHUNK_BYTES)))
    copy, total = RingReader._copy, [KEPT + CHUNK_BYTES]

    def while_it_is_written(self: RingReader, start: int, upto: int) -> bytes:
        if len(total) < 20:
            size = 321
            ring.write(bytes((total[-1] + at) % 251 for at in range(size)))
            total.append(total[-1] + size)
        return copy(self, start, upto)

    monkeypatch.setattr(RingReader, "_copy", while_it_is_written)
    read = ring.reader.read()

    assert len(read.data) == read.total - read.start > 0
    assert read.data == bytes(at % 251 for at in range(read.start, read.total))


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (Read("aä€😀".encode(), 0, 10), ("aä€😀", 0)),
        (Read(b"a\xffb", 0, 3), ("a\ufffdb", 0)),
        (Read("😀b".encode()[1:], 1, 5), ("b", 4)),
        (Read("€b".encode()[2:], 2, 4), ("b", 3)),
        (Read("äb".encode(), 5, 8), ("äb", 5)),
        (Read(b"\x80\x80\x80\x80", 5, 9), ("\ufffd", 8)),
        (Read(b"\x80b", 0, 2), ("\ufffdb", 0)),
        (Read(b"", 9, 9), ("", 9)),
    ],
)
def test_a_character_that_is_cut_at_the_start_is_dropped_and_nonsense_replaced(
    read: Read, text: tuple[str, int]
) -> None:
    assert as_text(read) == text


@pytest.mark.parametrize(
    ("data", "text", "start"),
    [
        (b"abcdef", "cdef", 102),
        ("ä€😀aä".encode(), "€😀aä", 102),
        (b"\xff" * 9, "\ufffd" * 4, 105),
        ("\ufffd".encode() * 6, "\ufffd" * 4, 106),
        (b"ab\xf0\x9f\x98", "b\ufffd", 101),  # cut short: three bytes that are no character, replaced as one
        (b"\xf0\x9f\x98abc", "abc", 103),  # cut in the middle of one: its rest is dropped
        (b"abcd", "abcd", 100),
        (b"", "", 100),
    ],
)
def test_the_newest_characters_are_told_with_their_byte(data: bytes, text: str, start: int) -> None:
    assert newest(Read(data, 100, 100 + len(data)), 4) == (text, start)


def test_of_bytes_that_are_no_text_the_end_tells_how_many_came_before(jobs: Jobs) -> None:
    """Each takes three bytes once it is replaced: to count them then tells of too few."""
    more = 5000
    jobs.start("1-0", JobSpec(f"head -c {OUTPUT_CHARS_TOLD + more} /dev/zero | tr '\\0' '\\377'"))

    (end,) = wait_ends(jobs, 1)

    assert end.output == JobOutput("\ufffd" * OUTPUT_CHARS_TOLD, more, OUTPUT_CHARS_TOLD + more)


def test_pages_lose_no_byte_and_repeat_none() -> None:
    """Wherever a page ends: in the middle of a character, of one that is never whole, or of bytes that are none."""
    data = "aä€😀".encode() + b"\x80\x80\x80\x80\xff" + "é".encode() * 3 + b"\xe2\x82"
    read = Read(data, 0, len(data))
    for most in range(4, len(data) + 1):
        texts, at = [], 0
        while at < len(data):
            text, start, end = page(read, at, most, is_over=True)
            assert start == at < end <= at + most
            texts.append(text)
            at = end
        assert "".join(texts) == data.decode("utf-8", "replace")


def test_a_character_that_is_not_whole_yet_is_left_to_the_next_page() -> None:
    begun, whole = Read("a😀".encode()[:3], 0, 3), Read("a😀".encode(), 0, 5)

    assert page(begun, 0, None, is_over=False) == ("a", 0, 1)
    assert page(begun, 1, None, is_over=False) == ("", 1, 1)
    assert page(whole, 1, None, is_over=False) == ("😀", 1, 5)
    assert page(begun, 1, None, is_over=True) == ("\ufffd", 1, 3)


def test_a_page_begins_with_the_first_whole_character_that_is_still_kept() -> None:
    kept = Read("😀b".encode()[1:], 101, 105)

    assert page(kept, 0, None, is_over=False) == ("b", 104, 105)
    assert page(kept, 99, 4, is_over=False) == ("b", 104, 105)
    assert page(kept, 101, None, is_over=True) == ("\ufffd\ufffd\ufffdb", 101, 105), "as it was asked for"
    assert page(kept, 999, 4, is_over=True) == ("", 105, 105)


def test_both_streams_are_kept_in_the_order_of_their_writes(jobs: Jobs) -> None:
    jobs.start("1-0", JobSpec(r"echo out; echo err >&2; printf '\303\244\377'"))

    (end,) = wait_ends(jobs, 1)

    assert end.output == JobOutput("out\nerr\nä\ufffd", 0, 11)


def test_the_output_can_be_read_while_the_job_runs_and_until_its_end_is_recorded(jobs: Jobs, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    jobs.start("1-0", JobSpec(f"echo one; read line <{go}; echo two"))
    wait_until(lambda: jobs.output("1-0") == JobOutput("one\n", 0, 4), "the first line")

    go.write_text("\n")
    wait_ends(jobs, 1)

    assert jobs.output("1-0") == JobOutput("one\ntwo\n", 0, 8)
    assert jobs.output("1-0", 4) == JobOutput("two\n", 4, 8)
    assert jobs.output("1-0", 99) == JobOutput("", 8, 8)
    assert jobs.output("1-0", 1, 2) == JobOutput("ne", 1, 8, left=5)
    assert jobs.output("never there") is None


def test_a_job_that_writes_without_end_is_neither_blocked_nor_kept(jobs: Jobs) -> None:
    """Its supervisor holds no more of it than the ring does."""
    size = 200_000_000
    jobs.start("1-0", JobSpec(f"yes 123456789 | head -c {size}; echo; exec sleep 600"))
    wait_until(lambda: (out := jobs.output("1-0")) is not None and out.total == size + 1, "all is read")

    out = jobs.output("1-0")
    (guard,) = children_named(os.getpid(), "noeta-guard")
    (supervisor,) = children_named(guard, "noeta-job")
    status = dict(line.split(":", 1) for line in Path(f"/proc/{supervisor}/status").read_text().splitlines())

    assert out is not None and out.start == size + 1 - OUTPUT_BYTES_KEPT
    assert out.text.endswith("123456789\n\n") and len(out.text) == OUTPUT_BYTES_KEPT
    assert int(status["VmHWM"].split()[0]) < 64 * 1024  # KiB
    assert jobs.stop()
    assert jobs.output("1-0") == out
    assert jobs.ended()[0].output == JobOutput(out.text[-OUTPUT_CHARS_TOLD:], size + 1 - OUTPUT_CHARS_TOLD, size + 1)


def test_a_job_may_close_its_output_and_run_on(jobs: Jobs, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    jobs.start("1-0", JobSpec(f"echo one; exec >&- 2>&-; read line <{go}; exit 3"))
    wait_until(lambda: jobs.output("1-0") == JobOutput("one\n", 0, 4), "its only line")

    go.write_text("\n")

    assert [(end.exit_code, end.output.text) for end in wait_ends(jobs, 1)] == [(3, "one\n")]
