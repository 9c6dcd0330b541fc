"""The tools of the shell, over real processes: what the model is told, and that nothing is left of a command."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from noeta.core.errors import BadInput
from noeta.core.jobs import OUTPUT_BYTES_KEPT, OUTPUT_CHARS_TOLD, JobEnd, JobOutput, Jobs, JobSpec
from noeta.core.tool import Recovers, StepCancelled, Tool, ToolResult
from noeta.core.world import Event
from noeta.plugins.shell import Bash, BashOutput, KillBash, run_to_end, shell_tools
from noeta.runtime.threads import ThreadWorld
from tests.unit.plugins.stage import Ctx
from tests.unit.runtime.jobs.stage import LONG, MARK, alive, claim_held, job_table, wait_ends, wait_until


@dataclass(frozen=True)
class LiveCtx(Ctx):
    """A context in which time passes, and which can be cancelled. ``waits``: how long each wait was asked to be."""

    order: Event = field(default_factory=lambda: ThreadWorld(seed=1).event())
    waits: list[float] = field(default_factory=list)

    def cancel(self) -> None:
        object.__setattr__(self, "cancelled", True)
        self.order.set()

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return self.order.wait(seconds)


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    with job_table() as (table, world):
        yield table.of(claim_held(world, LONG))


@pytest.fixture
def ctx(jobs: Jobs) -> LiveCtx:
    return LiveCtx(jobs=jobs)


# -- in the foreground -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("echo hello; echo world >&2", ToolResult("hello\nworld\n")),
        ("true", ToolResult("It wrote nothing.")),
        ("echo so; exit 3", ToolResult("so\n[exited with code 3]", is_error=True)),
        ("exit 1", ToolResult("It wrote nothing.\n[exited with code 1]", is_error=True)),
        ("printf so; kill -KILL $$", ToolResult("so\n[killed by signal 9]", is_error=True)),
    ],
)
def test_a_command_tells_what_it_wrote_and_how_it_ended(command: str, result: ToolResult, ctx: LiveCtx) -> None:
    assert Bash().run({"command": command}, ctx) == result
    assert ctx.jobs is not None and not ctx.jobs.known(), "its end is told: the runner has nothing to tell"


def test_of_a_long_output_the_newest_is_told(ctx: LiveCtx) -> None:
    chars = OUTPUT_CHARS_TOLD + 1000

    told = Bash().run({"command": f"head -c {chars - 4} /dev/zero | tr '\\0' a; echo end"}, ctx)

    assert told == ToolResult(f"[cut: 1000 bytes before this]\n{'a' * (OUTPUT_CHARS_TOLD - 4)}end\n")


def test_a_command_runs_where_it_is_told_to(ctx: LiveCtx) -> None:
    assert Bash().run({"command": "pwd", "directory": "/"}, ctx) == ToolResult("/\n")
    told = Bash().run({"command": "pwd", "directory": "/no/such/place"}, replace(ctx, call_id="3-1"))
    assert told == ToolResult("It could not be started: No such file or directory: /no/such/place", is_error=True)


def test_a_command_that_takes_too_long_is_stopped_with_all_its_processes(ctx: LiveCtx) -> None:
    told = Bash().run(
        {"command": "export NOETA_TEST_MARK=too-long; setsid sleep 600 & echo so; sleep 600", "timeout_seconds": 0.2},
        ctx,
    )

    assert told == ToolResult("so\n[stopped: it did not end within 0.2 seconds]", is_error=True)
    assert alive("too-long") == set()
    assert sum(ctx.waits) == pytest.approx(0.2)


def test_a_cancelled_step_leaves_nothing_of_its_command(ctx: LiveCtx) -> None:
    """Neither a process nor an end that somebody would have to tell."""

    class Ordered(LiveCtx):
        def wait(self, seconds: float) -> bool:
            if alive("cancelled"):
                self.cancel()
            return super().wait(seconds)

    cancelled = Ordered(jobs=ctx.jobs)

    with pytest.raises(StepCancelled):
        Bash().run({"command": f"export {MARK}=cancelled; setsid sleep 600 & sleep 600"}, cancelled)

    assert alive("cancelled") == set()
    assert ctx.jobs is not None and (sorted(ctx.jobs.known()), list(ctx.jobs.ended())) == ([], [])


def test_a_step_that_is_cancelled_before_it_runs_starts_nothing(ctx: LiveCtx) -> None:
    ctx.cancel()

    with pytest.raises(StepCancelled):
        Bash().run({"command": "true"}, ctx)

    assert ctx.jobs is not None and not ctx.jobs.past()


def test_looks_at_a_command_grow_rarer(ctx: LiveCtx) -> None:
    Bash().run({"command": "sleep 0.3"}, ctx)

    assert ctx.waits[:3] == [0.002, 0.004, 0.008]
    assert max(ctx.waits) <= 0.05


class Stuck:
    """Jobs of which none ever ends, as in an uninterruptible system call."""

    def __init__(self) -> None:
        self.given_up: list[str] = []
        self.stopped: list[str] = []

    def start(self, job_id: str, spec: JobSpec) -> None:
        pass

    def live(self) -> frozenset[str]:
        return frozenset({"3-0"})

    def ended(self) -> list[JobEnd]:
        return []

    def known(self) -> frozenset[str]:
        return self.live()

    def stop(self, job_ids: list[str]) -> bool:
        self.stopped += job_ids
        return False

    def recorded(self, job_ids: list[str]) -> None:
        self.given_up += job_ids


def test_a_command_that_does_not_end_on_sigkill_is_an_error_that_says_so() -> None:
    stuck: Any = Stuck()

    with pytest.raises(TimeoutError, match="may still run"):
        run_to_end(stuck, Ctx(), "3-0", JobSpec("x"), 1.0)

    assert (stuck.stopped, stuck.given_up) == (["3-0"], ["3-0"])
    assert KillBash().run({"job": "3-0"}, Ctx(jobs=stuck)).is_error


# -- in the background -------------------------------------------------------------------------------------


def test_in_the_background_a_command_is_named_and_not_run(ctx: LiveCtx) -> None:
    """It does nothing by itself, so that it simply runs again. Keeps: jobs-told-once."""
    input = {"command": "make all", "background": True, "directory": "/tmp"}

    result = Bash().run(input, ctx)

    assert result == ToolResult(
        "Job 3-0 is started in the background. You will be told when it has ended.",
        job=JobSpec("make all", "/tmp"),
    )
    assert Bash().recover(input, replace(ctx, start=2)) == result
    assert ctx.jobs is not None and not ctx.jobs.known()


@pytest.mark.holds("tool/safe-default")
def test_a_foreground_command_that_was_cut_short_has_an_unknown_outcome(ctx: LiveCtx) -> None:
    assert Bash().recover({"command": "make all"}, ctx) is None
    assert Bash().recover({"command": "make all", "background": False}, ctx) is None
    assert not Bash().flags.retry_safe


def test_the_output_of_a_job_is_read_from_where_it_was_read_to(ctx: LiveCtx) -> None:
    assert ctx.jobs is not None
    ctx.jobs.start("2-0", JobSpec("echo hello; sleep 600"))
    wait_until(lambda: ctx.jobs is not None and ctx.jobs.output("2-0") == JobOutput("hello\n", 0, 6), "its output")

    assert (
        BashOutput().run({"job": "2-0"}, ctx).output == "Job 2-0 runs. Its output from byte 0 to byte 6 of 6:\nhello\n"
    )
    assert BashOutput().run({"job": "2-0", "after": 2}, ctx).output == (
        "Job 2-0 runs. Its output from byte 2 to byte 6 of 6:\nllo\n"
    )
    assert BashOutput().run({"job": "2-0", "after": 6}, ctx).output == (
        "Job 2-0 runs. It has written 6 bytes, and nothing after byte 6."
    )
    assert KillBash().run({"job": "2-0"}, ctx) == ToolResult(
        "Job 2-0 is stopped, with all its processes. You will be told of its end."
    )
    assert BashOutput().run({"job": "2-0"}, ctx).output == (
        "Job 2-0 has ended. Its output from byte 0 to byte 6 of 6:\nhello\n"
    )


def test_of_a_jobs_long_output_the_newest_is_told_with_its_place(ctx: LiveCtx) -> None:
    assert ctx.jobs is not None
    ctx.jobs.start("2-0", JobSpec(f"head -c {OUTPUT_CHARS_TOLD} /dev/zero | tr '\\0' a; echo end"))
    wait_ends(ctx.jobs, 1)

    told = BashOutput().run({"job": "2-0"}, ctx).output

    first, text = told.split("\n", 1)
    total = OUTPUT_CHARS_TOLD + 4
    assert first == f"Job 2-0 has ended. Its output from byte 4 to byte {total} of {total}:"
    assert text == "a" * (OUTPUT_CHARS_TOLD - 4) + "end\n"


def test_all_that_is_kept_of_a_long_output_can_be_read_page_by_page(ctx: LiveCtx) -> None:
    assert ctx.jobs is not None
    ctx.jobs.start("2-0", JobSpec("seq 1 60000 | sed 's/.*/ä &/'"))
    (end,) = wait_ends(ctx.jobs, 1)
    total, at, read = end.output.total, 0, ""
    assert total > OUTPUT_BYTES_KEPT + OUTPUT_CHARS_TOLD

    while at < total:
        first, text = BashOutput().run({"job": "2-0", "after": at}, ctx).output.split("\n", 1)
        found = re.fullmatch(
            rf"Job 2-0 has ended. Its output from byte (\d+) to byte (\d+) of {total}"
            r"(?P<lost> \(what came before that is no longer kept\))?(?: \(read on with after=(?P<next>\d+)\))?:",
            first,
        )
        assert found is not None, first
        assert (found["lost"] is None) == (int(found[1]) == at) == (at > 0)
        assert (found["next"] or str(total)) == found[2]
        assert len(text.encode()) == int(found[2]) - int(found[1]) <= OUTPUT_CHARS_TOLD
        at, read = int(found[2]), read + text

    assert ctx.jobs.output("2-0") == JobOutput(read, total - len(read.encode()), total)
    assert read.endswith(end.output.text)


def test_a_character_that_is_half_written_is_told_once_it_is_whole(ctx: LiveCtx, tmp_path: Path) -> None:
    assert ctx.jobs is not None
    jobs, go = ctx.jobs, tmp_path / "go"
    os.mkfifo(go)
    jobs.start("2-0", JobSpec(rf"printf '\303'; read line <{go}; printf '\244'"))
    wait_until(lambda: (out := jobs.output("2-0")) is not None and out.total == 1, "half of it")

    half = BashOutput().run({"job": "2-0"}, ctx).output
    go.write_text("\n")
    wait_ends(jobs, 1)

    assert half == "Job 2-0 runs. It has written 1 bytes, and no whole character after byte 0."
    assert BashOutput().run({"job": "2-0", "after": 0}, ctx).output == (
        "Job 2-0 has ended. Its output from byte 0 to byte 2 of 2:\nä"
    )


def test_a_job_can_be_stopped_as_often_as_one_likes(ctx: LiveCtx) -> None:
    assert ctx.jobs is not None
    ctx.jobs.start("2-0", JobSpec("sleep 600"))

    first, second = (KillBash().run({"job": "2-0"}, ctx) for _ in range(2))

    assert first == second and not first.is_error
    assert [end.how for end in ctx.jobs.ended()] == ["stopped"]
    ctx.jobs.recorded(["2-0"])
    assert KillBash().run({"job": "2-0"}, ctx) == ToolResult("Job 2-0 has ended, and you were told how.")


def test_an_unknown_job_has_ended_or_never_was(ctx: LiveCtx) -> None:
    assert ctx.jobs is not None
    ctx.jobs.start("2-0", JobSpec("true"))
    wait_ends(ctx.jobs, 1)
    ctx.jobs.recorded(["2-0"])

    ended, never = (BashOutput().run({"job": job}, ctx) for job in ("2-0", "9-9"))

    assert ended == ToolResult("Job 2-0 has ended, and you were told how.", is_error=True)
    assert never == ToolResult(
        "No job 9-9 runs here. If there was one, it has ended or was lost, and you were told so: what you were told of "
        "its output then is all that is left of it.",
        is_error=True,
    )
    assert KillBash().run({"job": "9-9"}, ctx) == never


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "input", "field"),
    [
        (Bash(), {}, "command"),
        (Bash(), {"command": ""}, "command"),
        (Bash(), {"command": 7}, "command"),
        (Bash(), {"command": "x", "timeout_seconds": 0}, "timeout_seconds"),
        (Bash(), {"command": "x", "timeout_seconds": 601}, "timeout_seconds"),
        (Bash(), {"command": "x", "timeout_seconds": math.nan}, "timeout_seconds"),
        (Bash(), {"command": "x", "background": "yes"}, "background"),
        (Bash(), {"command": "x", "directory": ""}, "directory"),
        (Bash(), {"command": "x", "directory": 7}, "directory"),
        (Bash(), {"command": "x", "shell": "zsh"}, "shell"),
        (BashOutput(), {}, "job"),
        (BashOutput(), {"job": "2-0", "after": -1}, "after"),
        (BashOutput(), {"job": "2-0", "after": 1.5}, "after"),
        (BashOutput(), {"job": "2-0", "after": True}, "after"),
        (KillBash(), {"job": ""}, "job"),
        (KillBash(), {"job": "2-0", "signal": 9}, "signal"),
    ],
)
def test_a_bad_input_is_refused_by_the_name_of_its_field(tool: Tool, input: Any, field: str, jobs: Jobs) -> None:
    with pytest.raises(BadInput) as refused:
        tool.run(input, Ctx(jobs=jobs))

    assert refused.value.field == field
    assert not jobs.known()


@pytest.mark.parametrize("seconds", [-1, 0, 600.1, 1e300, math.inf, "60", True])
def test_a_wrong_timeout_is_told_the_limit(seconds: Any, jobs: Jobs) -> None:
    with pytest.raises(BadInput) as refused:
        Bash().run({"command": "true", "timeout_seconds": seconds}, Ctx(jobs=jobs))

    assert str(refused.value) == (f"timeout_seconds: expected more than 0 and at most 600 seconds, found {seconds!r}")


@pytest.mark.parametrize("seconds", [1, 600])
def test_a_job_in_the_background_has_no_time_limit_and_says_so(seconds: int, jobs: Jobs) -> None:
    input = {"command": "true", "background": True, "timeout_seconds": seconds}
    for run in (Bash().run, Bash().recover):
        with pytest.raises(BadInput) as refused:
            run(input, Ctx(jobs=jobs))

        assert str(refused.value).startswith("timeout_seconds: a job in the background has no time limit")
        assert "KillBash" in str(refused.value)


@pytest.mark.parametrize(
    ("tool", "input"),
    [
        (Bash(), {"command": "true"}),
        (Bash(), {"command": "true", "background": True}),
        (BashOutput(), {"job": "2-0"}),
        (KillBash(), {"job": "2-0"}),
    ],
)
def test_a_worker_without_jobs_says_so(tool: Tool, input: Any) -> None:
    with pytest.raises(BadInput, match="this worker runs no background jobs"):
        tool.run(input, Ctx())


def test_the_tools_by_their_names() -> None:
    tools: dict[str, object] = dict(shell_tools())

    assert list(tools) == ["Bash", "BashOutput", "KillBash"]
    assert [isinstance(tool, Recovers) for tool in tools.values()] == [True, False, False]
    assert [tool.flags.retry_safe for tool in shell_tools().values()] == [False, True, True]
