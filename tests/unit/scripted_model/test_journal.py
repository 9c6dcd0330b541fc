"""The journal keeps whole lines of any number of processes, dead or alive, and says what is torn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripted_model.journal import (
    LINE_BYTES_MAX,
    FileJournal,
    Journal,
    JournalBook,
    JournalFailed,
    MemoryJournal,
    read_journal,
)

WRITES_AND_DIES = """
import os, signal, sys
from pathlib import Path
from scripted_model.journal import FileJournal
journal = FileJournal(Path(sys.argv[1]), sys.argv[2])
for number in range(int(sys.argv[3])):
    journal.effect(task="t", call=f"{number}-0", tool="plain", tag=f"{sys.argv[2]}#{number}", start=1)
journal.death(task="t", call="9-0", start=1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def effect(journal: Journal, call: str = "3-0", start: int = 1, tag: str = "t#1") -> None:
    journal.effect(task="t", call=call, tool="plain", tag=tag, start=start)


def journals(tmp_path: Path) -> list[Journal]:
    return [FileJournal(tmp_path, "w1"), MemoryJournal(JournalBook(), "w1", lambda: 1.0)]


def test_an_effect_is_found_by_task_and_call_at_whatever_start(tmp_path: Path) -> None:
    for journal in journals(tmp_path):
        assert journal.find("t", "3-0") is None
        effect(journal, start=2)
        found = journal.find("t", "3-0")

        assert found is not None
        assert (found.token, found.start, found.worker) == ("t:3-0:2", 2, "w1")
        assert journal.find("t", "3-1") is None
        assert journal.find("other", "3-0") is None


def test_a_line_holds_all_that_a_checker_needs(tmp_path: Path) -> None:
    effect(FileJournal(tmp_path, "w1", pid=17, clock=lambda: 1234.5))

    (line,) = read_journal(tmp_path).effects
    assert (line.token, line.task, line.call, line.tool, line.tag) == ("t:3-0:1", "t", "3-0", "plain", "t#1")
    assert (line.start, line.worker, line.pid, line.time) == (1, "w1", 17, 1234.5)


def test_every_worker_finds_what_killed_processes_wrote(tmp_path: Path) -> None:
    for worker in ("w1", "w2"):
        died = subprocess.run([sys.executable, "-c", WRITES_AND_DIES, str(tmp_path), worker, "50"], check=False)
        assert died.returncode == -9

    contents = read_journal(tmp_path)
    assert (len(contents.effects), len(contents.deaths), contents.torn) == (100, 2, 0)
    assert FileJournal(tmp_path, "w3").find("t", "49-0") is not None


def test_processes_that_share_a_file_do_not_mix_their_lines(tmp_path: Path) -> None:
    one, other = FileJournal(tmp_path, "w", pid=5), FileJournal(tmp_path, "w", pid=5)
    for number in range(50):
        effect(one, f"{number}-0")
        effect(other, f"{number}-1")

    assert len(read_journal(tmp_path).effects) == 100
    assert len(list(tmp_path.glob("*.effects.jsonl"))) == 1


@pytest.mark.parametrize("kept_bytes", [1, 20, -1])
def test_a_torn_last_line_is_counted_and_everything_else_is_read(tmp_path: Path, kept_bytes: int) -> None:
    """A process that was killed in a write left a part of its line, up to all but the line's end."""
    journal = FileJournal(tmp_path, "w1", pid=5)
    effect(journal, "3-0")
    (path,) = tmp_path.glob("*.effects.jsonl")
    whole = path.read_bytes()
    torn = whole + whole.replace(b"3-0", b"4-0")[:kept_bytes]
    path.write_bytes(torn)

    readable = 2 if kept_bytes == -1 else 1
    assert len(read_journal(tmp_path).effects) == readable
    assert read_journal(tmp_path).torn == 2 - readable

    again = FileJournal(tmp_path, "w1", pid=5)
    effect(again, "5-0")
    contents = read_journal(tmp_path)
    assert [line.call for line in contents.effects][-1] == "5-0"
    assert (len(contents.effects), contents.torn) == (readable + 1, 2 - readable)
    assert again.find("t", "5-0") is not None


def test_bytes_that_are_no_text_are_counted_as_torn(tmp_path: Path) -> None:
    (tmp_path / "w-1.effects.jsonl").write_bytes(b'{"token":"\xff\n\x00\x00\n')

    assert read_journal(tmp_path).torn == 2


def test_a_line_that_could_be_torn_in_the_middle_is_refused_before_it_is_written(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path, "w1")

    with pytest.raises(JournalFailed, match=f"below {LINE_BYTES_MAX} bytes"):
        effect(journal, tag="x" * LINE_BYTES_MAX)
    assert read_journal(tmp_path).effects == ()
    effect(journal)
    assert len(read_journal(tmp_path).effects) == 1


def test_a_short_write_is_an_error_and_the_next_line_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = FileJournal(tmp_path, "w1")
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
    with pytest.raises(JournalFailed, match="wrote 10 of"):
        effect(journal, "3-0")
    monkeypatch.undo()
    effect(journal, "4-0")

    contents = read_journal(tmp_path)
    assert ([line.call for line in contents.effects], contents.torn) == (["4-0"], 1)


def test_worker_names_never_leave_the_directory(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    effect(FileJournal(directory, "../w/1 ü\n"))

    assert {path.parent for path in tmp_path.rglob("*.jsonl")} == {directory}
    assert read_journal(directory).effects[0].worker == "../w/1 ü\n"


def test_an_empty_or_absent_directory_is_an_empty_journal(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "absent").effects == ()


def test_closing_twice_is_harmless_and_leaves_what_was_written(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path, "w1")
    effect(journal)
    journal.close()
    journal.close()

    assert len(read_journal(tmp_path).effects) == 1
