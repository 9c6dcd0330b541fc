"""Piped output is plain lines, flushed at once; a reader that has seen enough ends nothing."""

from __future__ import annotations

import io

import pytest

from noeta.chaos.progress import PlainProgress, open_progress


def test_plain_progress_says_lines_at_once_and_standings_now_and_then() -> None:
    out, now = io.StringIO(), [0.0]
    progress = PlainProgress(out, every=10.0, clock=lambda: now[0])

    progress.line("begin")
    progress.now("standing at 0")
    now[0] = 11.0
    progress.now("standing at 11")
    progress.now("standing at 11 again")

    assert out.getvalue() == "begin\n  standing at 11\n"


def test_a_reader_that_is_gone_ends_no_run() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    PlainProgress(Gone()).line("still running")


@pytest.mark.parametrize("is_ci", [True, False])
def test_a_pipe_gets_plain_lines(is_ci: bool, capsys: pytest.CaptureFixture[str]) -> None:
    progress = open_progress(is_ci=is_ci)
    progress.line("one [bold]line[/bold]")
    progress.close()

    assert isinstance(progress, PlainProgress)
    assert capsys.readouterr().out == "one [bold]line[/bold]\n"
