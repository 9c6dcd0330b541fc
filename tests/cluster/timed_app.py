"""An app for `noeta worker` in tests of clocks and of the interpreter: one call, of the tool and with the input that
the goal names, then a word.
"""

from __future__ import annotations

import ctypes
import json
import os
import shlex
from pathlib import Path
from typing import Any, Final

from noeta.core.model import ModelReply, ModelRequest, ModelSaid, RequestedCall, UserSaid
from noeta.core.runner import Engine
from noeta.core.tool import OnUnknown, ToolContext, ToolFlags, ToolResult
from noeta.plugins import ScheduleWakeup
from noeta.plugins.cron import CronCreate

FOLDER: Final = "NOETA_TEST_FOLDER"
JOURNAL: Final = "journal"
IN_CALL: Final = "in-call"
GO_ON: Final = "go-on"


class Provider:
    """Asks for what the goal names, then says that it is done."""

    def call(self, request: ModelRequest, *, attempt: int) -> ModelReply:
        first = request.said[0]
        assert isinstance(first, UserSaid)
        if first.text == "nothing" or any(isinstance(said, ModelSaid) for said in request.said):
            return ModelReply("done")
        tool, input = json.loads(first.text)
        return ModelReply("", (RequestedCall(tool, input),), "tool_use")


class Hold:
    """Journals its start; then no other thread of its process gets the interpreter until the file ``go-on`` is there:
    a library that is called as ``PyDLL`` keeps it, and libc's ``system`` waits for its command."""

    name = "hold"
    flags = ToolFlags()

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        folder = Path(os.environ[FOLDER])
        with (folder / JOURNAL).open("a") as journal:
            journal.write(f"{ctx.idempotency_key} {ctx.start}\n")
        place = shlex.quote(str(folder))
        command = f"cd {place} && touch {IN_CALL} && while [ ! -e {GO_ON} ]; do sleep 0.02; done"
        ctypes.PyDLL(None).system(command.encode())
        return ToolResult("held")


def make() -> Engine:
    tools = {tool.name: tool for tool in (ScheduleWakeup(), CronCreate(), Hold())}
    return Engine(Provider(), tools=tools, on_unknown=OnUnknown.TELL)
