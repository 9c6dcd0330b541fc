"""Shell commands: ``Bash`` runs one, in the foreground or as a background job; ``BashOutput`` reads what a job has
written so far; ``KillBash`` stops it.

All run under the jobs of the claim (`noeta.core.jobs`): a command's whole process tree ends with the command, and
before its worker's lease is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from noeta.core import texts
from noeta.core.errors import BadInput
from noeta.core.jobs import OUTPUT_CHARS_TOLD, JobEnd, JobOutput, Jobs, JobSpec
from noeta.core.lower import is_finite
from noeta.core.tool import StepCancelled, ToolContext, ToolFlags, ToolResult
from noeta.plugins import inputs

TIMEOUT_SECONDS: Final = 120.0
TIMEOUT_SECONDS_MAX: Final = 600.0
"""Of a command in the foreground, which holds up the task: what takes longer is a job."""

PAUSE_SECONDS_MIN: Final = 0.002
PAUSE_SECONDS_MAX: Final = 0.05
"""Between two looks at a command in the foreground: each pause is twice the one before."""

NO_JOBS: Final = "this worker runs no background jobs"
NO_OUTPUT: Final = "It wrote nothing."
EXITED: Final = "[exited with code {code}]"
KILLED: Final = "[killed by signal {signal}{detail}]"
TIMED_OUT: Final = "[stopped: it did not end within {seconds:g} seconds]"
NOT_STARTED: Final = "It could not be started: {detail}"
WOULD_NOT_END: Final = "its processes do not end, also on SIGKILL; they may still run"
READ: Final = "Job {job} {state}. Its output from byte {start} to byte {end} of {total}{more}:\n{text}"
READ_ON: Final = " (read on with after={end})"
NO_LONGER_KEPT: Final = " (what came before that is no longer kept)"
READ_NOTHING: Final = "Job {job} {state}. It has written {total} bytes, and nothing after byte {after}."
READ_NOTHING_WHOLE: Final = (
    "Job {job} {state}. It has written {total} bytes, and no whole character after byte {after}."
)
RUNS: Final = "runs"
HAS_ENDED: Final = "has ended"
STOPPED: Final = "Job {job} is stopped, with all its processes. You will be told of its end."
ENDED_BEFORE: Final = "Job {job} has ended, and you were told how."
NEVER_THERE: Final = (
    "No job {job} runs here. If there was one, it has ended or was lost, and you were told so: what you were told of "
    "its output then is all that is left of it."
)
NO_LIMIT: Final = "a job in the background has no time limit: leave it out, and stop the job with KillBash"


class Bash:
    """Input: the ``command``, for a shell; ``timeout_seconds`` of one in the foreground; ``background``; ``directory``.
    Implements ``noeta.core.tool.Tool`` and ``Recovers``.

    In the foreground the call returns what the command wrote, the newest of it, and how it ended: an exit code other
    than 0, a signal or a timeout is an error result. In the background the call names a job, which is started once
    that is durable: it does nothing by itself, and simply runs again. Keeps: jobs-told-once.
    """

    name = "Bash"
    flags = ToolFlags(retry_safe=False)

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        """Run it, or name it as a job.

        Raises:
            BadInput: also where the worker runs no jobs.
            StepCancelled: the step was cancelled meanwhile; nothing of the command is left.
        """
        given = inputs.fields(input, "command", "timeout_seconds", "background", "directory")
        command = inputs.text(given, "command")
        spec = JobSpec(command, inputs.text(given, "directory") if given.get("directory") is not None else None)
        timeout, in_background = _timeout(given), inputs.flag(given, "background")
        if in_background and given.get("timeout_seconds") is not None:
            raise BadInput("timeout_seconds", NO_LIMIT)
        jobs = _jobs(ctx, "command")
        if in_background:
            return ToolResult(texts.JOB_STARTED.format(job=ctx.call_id), job=spec)
        end = run_to_end(jobs, ctx, ctx.call_id, spec, timeout)
        return _result(end, timeout)

    def recover(self, input: Any, ctx: ToolContext) -> ToolResult | None:
        if isinstance(input, dict) and input.get("background") is True:
            return self.run(input, ctx)
        return None


class BashOutput:
    """Input: the ``job``, and ``after``: the byte to read from, which is the one that an earlier read came to.
    Implements ``noeta.core.tool.Tool``.

    Without ``after`` the newest of the output is told. With it, the next ``OUTPUT_CHARS_TOLD`` bytes from there on, so
    that all that is kept can be read page by page.
    """

    name = "BashOutput"
    flags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        """Read it.

        Raises:
            BadInput: also where the worker runs no jobs.
        """
        given = inputs.fields(input, "job", "after")
        job, after = inputs.text(given, "job"), given.get("after")
        if after is not None and (not isinstance(after, int) or isinstance(after, bool) or after < 0):
            raise BadInput("after", f"expected the number of a byte, 0 or more, found {after!r:.200}")
        jobs = _jobs(ctx, "job")
        state = RUNS if job in jobs.live() else HAS_ENDED  # before its output: of one that has ended, it is all there
        output = jobs.output(job) if after is None else jobs.output(job, after, OUTPUT_CHARS_TOLD)
        if output is None:
            return _unknown(jobs, job)
        return ToolResult(_read(job, state, after, output))


class KillBash:
    """Input: the ``job`` to stop. One that has ended is left as it is. Implements ``noeta.core.tool.Tool``."""

    name = "KillBash"
    flags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        """Stop it.

        Raises:
            BadInput: also where the worker runs no jobs.
        """
        job = inputs.text(inputs.fields(input, "job"), "job")
        jobs = _jobs(ctx, "job")
        if job not in jobs.known():
            return replace(_unknown(jobs, job), is_error=job not in jobs.past())
        if not jobs.stop([job]):
            return ToolResult(f"Job {job}: {WOULD_NOT_END}.", is_error=True)
        return ToolResult(STOPPED.format(job=job))


def shell_tools() -> dict[str, Bash | BashOutput | KillBash]:
    """All of them by name, as an ``Engine`` takes its tools."""
    return {tool.name: tool for tool in (Bash(), BashOutput(), KillBash())}


def run_to_end(jobs: Jobs, ctx: ToolContext, job_id: str, spec: JobSpec, timeout_seconds: float) -> JobEnd:
    """Run a command as a job of this step, which waits for it and tells nobody else of its end.

    After ``timeout_seconds``, counted by the waiting, it is stopped.

    Raises:
        StepCancelled: the step was cancelled, and the command stopped.
        TimeoutError: it would not end.
    """
    if ctx.cancelled:
        raise StepCancelled
    try:
        jobs.start(job_id, spec)
        left, pause = timeout_seconds, PAUSE_SECONDS_MIN
        while job_id in jobs.live():
            if left <= 0:
                jobs.stop([job_id])
                break
            if ctx.wait(min(pause, left)):
                raise StepCancelled
            left, pause = left - pause, min(pause * 2, PAUSE_SECONDS_MAX)
        end = next((end for end in jobs.ended() if end.job_id == job_id), None)
    except Exception:
        jobs.stop([job_id])
        raise
    finally:
        jobs.recorded([job_id])
    if end is None:
        raise TimeoutError(WOULD_NOT_END)
    return end


def _result(end: JobEnd, timeout_seconds: float) -> ToolResult:
    match end.how:
        case "exited":
            how = "" if end.exit_code == 0 else EXITED.format(code=end.exit_code)
        case "killed":
            how = KILLED.format(signal=end.signal, detail=f": {end.detail}" if end.detail else "")
        case "stopped":
            how = TIMED_OUT.format(seconds=timeout_seconds)
        case _:
            return ToolResult(NOT_STARTED.format(detail=end.detail), is_error=True)
    text, start = _newest(end.output)
    if start > 0:
        text = texts.JOB_OUTPUT_CUT.format(bytes=start) + text
    text = text or NO_OUTPUT
    if how:
        text += how if text.endswith("\n") else f"\n{how}"
    return ToolResult(text, is_error=bool(how))


def _read(job: str, state: str, after: int | None, output: JobOutput) -> str:
    """What a read tells. ``after``: see ``BashOutput``."""
    text, start = _newest(output)
    if not text:
        nothing = READ_NOTHING_WHOLE if output.left else READ_NOTHING
        return nothing.format(job=job, state=state, total=output.total, after=after or 0)
    more = "" if after is None or start <= after else NO_LONGER_KEPT
    more += READ_ON.format(end=output.end) if output.left else ""
    return READ.format(job=job, state=state, start=start, end=output.end, total=output.total, more=more, text=text)


def _newest(output: JobOutput) -> tuple[str, int]:
    """As much of the text as a model is told, and from which byte on it is."""
    text = output.text[-OUTPUT_CHARS_TOLD:]
    if len(text) == len(output.text):
        return text, output.start
    return text, max(output.end - len(text.encode()), output.start)  # a byte that was replaced counts as three


def _unknown(jobs: Jobs, job: str) -> ToolResult:
    if job in jobs.past():
        return ToolResult(ENDED_BEFORE.format(job=job), is_error=True)
    return ToolResult(NEVER_THERE.format(job=job), is_error=True)


def _jobs(ctx: ToolContext, field: str) -> Jobs:
    if ctx.jobs is None:
        raise BadInput(field, NO_JOBS)
    return ctx.jobs


def _timeout(given: Mapping[str, Any]) -> float:
    seconds = given.get("timeout_seconds")
    if seconds is None:
        return TIMEOUT_SECONDS
    if not is_finite(seconds) or not 0 < seconds <= TIMEOUT_SECONDS_MAX:
        limit = f"expected more than 0 and at most {TIMEOUT_SECONDS_MAX:g} seconds"
        raise BadInput("timeout_seconds", f"{limit}, found {seconds!r:.200}")
    return float(seconds)
