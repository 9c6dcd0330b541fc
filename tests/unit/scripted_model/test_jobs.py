"""The command of a scripted shell says the same to /bin/sh and to whoever reads it back."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from noeta.core.jobs import JobSpec
from noeta.core.tool import ToolFlags, ToolResult
from noeta.plugins.shell import Bash
from scripted_model.jobs import JOB, JOURNAL, TASK, WORKER, JournalledShell, command_of, output_line, shell_of
from scripted_model.journal import JOBS_SUFFIX, read_journal
from scripted_model.script import BadScript, Shell
from tests.unit.scripted_model.driving import FakeContext
from tests.unit.scripted_model.still_jobs import StillJobs


@pytest.mark.parametrize("shell", [Shell(3, 0.5), Shell(None, 1.0, stubborn=True), Shell(1, 0.25, 3)])
def test_a_command_is_read_back_as_what_it_was_made_from(shell: Shell) -> None:
    assert shell_of(command_of("t001-job/1#2", shell)) == ("t001-job/1#2", shell)
    assert command_of("a", shell) != command_of("b", shell)


@pytest.mark.parametrize(
    "command", ["", "echo", "# scripted shell", "# scripted shell {}\nexit", "x\n# scripted shell {}"]
)
def test_another_command_is_no_scripted_one(command: str) -> None:
    with pytest.raises(BadScript, match="no scripted shell"):
        shell_of(command)


def run(command: str, path: Path, seconds: float = 30.0) -> subprocess.CompletedProcess[str]:
    own = {TASK: "t.3-0.1", JOB: "7-0", WORKER: "w1", JOURNAL: str(path)}
    return subprocess.run(
        ["/bin/sh", "-c", command],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def test_a_shell_writes_its_lines_and_exits_as_scripted(tmp_path: Path) -> None:
    done = run(command_of("t#1", Shell(3, 0.01, exit_code=3)), tmp_path / f"w1{JOBS_SUFFIX}")

    contents = read_journal(tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == "".join(output_line("shell", number) for number in (1, 2, 3))
    assert [(line.task, line.job, line.tag, line.by, line.number, line.worker) for line in contents.jobs] == [
        ("t.3-0.1", "7-0", "t#1", "shell", number, "w1") for number in (1, 2, 3)
    ]
    assert contents.torn == 0
    times = [line.time for line in contents.jobs]
    assert times == sorted(times)
    assert times[-1] - times[0] > 0.02


def test_a_stubborn_one_leaves_somebody_of_another_session_behind_who_ignores_sigterm(tmp_path: Path) -> None:
    # The grandchild stands in the text alone: started here, nothing would end it.
    command = command_of("t#1", Shell(1, 0.01, stubborn=True))
    plain = command_of("t#1", Shell(1, 0.01))

    assert "setsid /bin/sh -c" in command
    assert "trap" in command
    assert "setsid" not in plain
    once = command.replace("while :; do", "while [ $n -lt 2 ]; do")
    assert run(f"{once.replace('exit 0', 'wait')}", tmp_path / f"w1{JOBS_SUFFIX}").returncode == 0
    lines = read_journal(tmp_path).jobs
    by = {line.by for line in lines}
    assert by == {"shell", "grandchild"}
    assert len({line.pid for line in lines}) == 2


def test_a_job_learns_who_it_is_and_where_to_write() -> None:
    tool = JournalledShell(Bash(), "/journal/w1.jobs.jsonl", "w1")
    jobs = StillJobs(lambda: 0.0, lambda: pytest.fail("nobody waits"))
    ctx = FakeContext("t", "7-0", jobs=jobs)
    given = {"command": command_of("t#1", Shell(1, 1.0)), "background": True}

    expected = {TASK: "t", JOB: "7-0", WORKER: "w1", JOURNAL: "/journal/w1.jobs.jsonl"}
    for outcome in (tool.run(given, ctx), tool.recover(given, ctx)):
        assert isinstance(outcome, ToolResult)
        assert outcome.job is not None
        assert outcome.job.environment == expected
    assert (tool.name, tool.flags) == ("Bash", ToolFlags())
    assert tool.recover({"command": "true"}, ctx) is None


class Speaks:
    """A tool that starts nothing, and cannot look anything up."""

    name = "Speaks"
    flags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: object) -> ToolResult:
        return ToolResult("spoken", job=JobSpec("x", environment={"A": "1"}) if input else None)


def test_what_starts_nothing_is_left_as_it_is_and_other_variables_stay() -> None:
    tool = JournalledShell(Speaks(), "j", "w1")
    ctx = FakeContext("t", "7-0")

    assert tool.run(None, ctx) == ToolResult("spoken")
    assert tool.recover(None, ctx) is None
    with_job = tool.run(True, ctx)
    assert isinstance(with_job, ToolResult)
    assert with_job.job is not None
    assert with_job.job.environment["A"] == "1"
    assert replace(with_job.job, environment={}) == JobSpec("x")
