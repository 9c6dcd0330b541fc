"""The command of a scripted background shell: one text, run by ``/bin/sh`` in a storm and read by the simulator.

Its first line is a comment that holds the script's own data (``shell_of`` reads it back, so that a simulator can play
the command in virtual time); the rest does the same in a real shell. Each line goes to the journal and to the shell's
output. Where the journal is, and whose job it is, the command learns from its environment, which ``JournalledShell``
sets: the same call gives the same text on every worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, Final

import msgspec

from noeta.core.tool import Recovers, Tool, ToolContext, ToolFlags, ToolOutcome, ToolResult
from scripted_model.steps import BadScript, Shell

TASK, JOB, WORKER, JOURNAL = "NOETA_JOB_TASK", "NOETA_JOB_ID", "NOETA_JOB_WORKER", "NOETA_JOB_JOURNAL"
"""The variables of a job: its task, its id, the worker that started it, and the file that its lines go to."""

SHELL: Final = "shell"
GRANDCHILD: Final = "grandchild"
"""Who writes a line."""

_HEAD: Final = "# scripted shell "
_LINE: Final = (
    "line() { "
    """printf '{"task":"%s","job":"%s","tag":"%s","by":"%s","number":%d,"worker":"%s","pid":%d,"time":%s}\\n' """
    f'"${TASK}" "${JOB}" "$tag" "$1" "$2" "${WORKER}" "$$" "$(date +%s.%N)" >>"${JOURNAL}"; echo "$1 line $2"; }}\n'
)


class _Head(msgspec.Struct, frozen=True):
    tag: str
    shell: Shell


def command_of(tag: str, shell: Shell) -> str:
    """What a shell is given to run, for the call with this tag."""
    head = msgspec.json.encode(_Head(tag, shell)).decode()
    lines = f"tag={quote(tag)}\n{_LINE}"
    pace = f"sleep {shell.every_seconds:g}"
    command = f"{_HEAD}{head}\n{lines}"
    if shell.stubborn:
        loop = f"{lines}trap '' HUP INT TERM\nn=0; while :; do n=$((n+1)); line {GRANDCHILD} $n; {pace}; done"
        command += f"setsid /bin/sh -c {quote(loop)} &\n"
    until = ":" if shell.lines is None else f'[ "$n" -lt {shell.lines} ]'
    return f"{command}n=0; while {until}; do n=$((n+1)); line {SHELL} $n; {pace}; done\nexit {shell.exit_code}\n"


def shell_of(command: str) -> tuple[str, Shell]:
    """The tag and the shell that a command was made from.

    Raises:
        BadScript: it is no scripted command.
    """
    first = command.partition("\n")[0]
    if not first.startswith(_HEAD):
        raise BadScript(f"no scripted shell: {first[:80]!r}")
    try:
        head = msgspec.json.decode(first.removeprefix(_HEAD), type=_Head)
    except msgspec.DecodeError as error:
        raise BadScript(f"no scripted shell: {error}") from error
    return head.tag, head.shell


def output_line(by: str, number: int) -> str:
    """What a line looks like in the shell's own output."""
    return f"{by} line {number}\n"


@dataclass(frozen=True, slots=True)
class JournalledShell:
    """The caller's tool that starts shells, whose jobs learn who they are and where to write. Implements
    ``noeta.core.tool.Tool`` and ``Recovers``, as ``inner`` does.

    ``journal``: a file that jobs append to; its name should end as ``journal.JOBS_SUFFIX`` says.
    """

    inner: Tool
    journal: str
    worker: str

    @property
    def name(self) -> str:
        """As the tool's own."""
        return self.inner.name

    @property
    def flags(self) -> ToolFlags:
        """As the tool's own."""
        return self.inner.flags

    def run(self, input: Any, ctx: ToolContext) -> ToolOutcome:
        """As the tool's own."""
        return self._told(self.inner.run(input, ctx), ctx)

    def recover(self, input: Any, ctx: ToolContext) -> ToolOutcome | None:
        """As the tool's own."""
        looks_up: object = self.inner
        found = looks_up.recover(input, ctx) if isinstance(looks_up, Recovers) else None
        return None if found is None else self._told(found, ctx)

    def _told(self, outcome: ToolOutcome, ctx: ToolContext) -> ToolOutcome:
        if not isinstance(outcome, ToolResult) or outcome.job is None:
            return outcome
        own: Mapping[str, str] = {
            TASK: ctx.task_id,
            JOB: ctx.call_id,
            WORKER: self.worker,
            JOURNAL: self.journal,
        }
        return replace(outcome, job=replace(outcome.job, environment={**outcome.job.environment, **own}))
