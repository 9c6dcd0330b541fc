"""A fake runtime, as small as the rules allow: drives provider and tools over a conversation, without a store.

It repeats what the page on recovery says (bounds, order of recovery, what a request shows) in the plainest way, so
that what is foretold is compared with something that shares no code with the real runner. ``land`` decides which
messages are taken at each point where a runtime may take some. Waits are over at once, people answer what has no time
limit, and a sub-agent runs from its birth to its end within the call that asks for it; orders never come. A background
shell has ended, or is lost, before the model is asked again, and a parked task is told to go on at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET

from noeta.core import texts
from noeta.core.codec import escape_text
from noeta.core.gates import Ask, Deny, GatedCall
from noeta.core.ids import call_id
from noeta.core.jobs import Jobs
from noeta.core.model import CallMade, ModelReply, ModelRequest, ModelSaid, ProviderError, Said, ToolAnswered, UserSaid
from noeta.core.tool import MAX_ATTEMPTS, CronState, ToolResult
from scripted_model.app import SYSTEM
from scripted_model.gate import ScriptedGate
from scripted_model.jobs import shell_of
from scripted_model.journal import JournalBook, MemoryJournal
from scripted_model.provider import ScriptedProvider
from scripted_model.script import TOOL_OF, calls_of, from_goal
from scripted_model.tools import RecoverableTool, ScriptedTool, make_tools
from scripted_model.workload import AGENT, GO_ON, ScheduledMessage, ScriptedTask

Land = Callable[[str, list[ScheduledMessage]], int]
"""Where (``call``, ``end``, ``wait``) and what is left to take: how many are taken now."""


class Died(BaseException):
    """The worker is dead."""


def die() -> None:
    """What scripted killers call here."""
    raise Died


@dataclass
class FakeContext:
    """A tool context that never waits and is never cancelled, unless told so."""

    task_id: str
    call_id: str
    start: int = 1
    stops_waits: bool = False
    started_at: float = 0.0
    parent_task_id: str | None = None
    subtask_depth: int = 0
    interactive: bool = False
    jobs: Jobs | None = None
    crons: Mapping[str, CronState] = field(default_factory=dict)
    waited: list[float] = field(default_factory=list)
    points: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    @property
    def idempotency_key(self) -> str:
        return f"{self.task_id}:{self.call_id}"

    @property
    def root_task_id(self) -> str:
        return self.task_id

    @property
    def cancelled(self) -> bool:
        return self.stops_waits

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return self.stops_waits

    def point(self, name: str, **facts: object) -> None:
        self.points.append((name, facts))


@dataclass(frozen=True)
class Ended:
    """How one turn ended, in the words of ``ForetoldTurn``."""

    ends: str
    reason: str | None
    answer: str | None


@dataclass(frozen=True)
class CallRecord:
    """How one call ended, in the words of ``ForetoldCall``."""

    tag: str
    tool: str
    source: str
    is_error: bool | None
    starts: int


@dataclass
class FakeRuntime:
    """One task from its goal to its end. ``loses`` names calls whose outcome is lost to a fault from outside."""

    task: ScriptedTask
    messages: list[ScheduledMessage]
    land: Land
    retry_attempts: int = 9
    depth: int = 0
    loses: Callable[[str], bool] = lambda tag: False
    said: list[Said] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    deaths: int = 0
    children: list[FakeRuntime] = field(default_factory=list)
    book: JournalBook = field(default_factory=JournalBook)
    jobs: list[str] = field(default_factory=list)
    crons: list[str] = field(default_factory=list)
    _untold: list[str] = field(default_factory=list)
    _seq: int = 1

    def __post_init__(self) -> None:
        self._decisions = [message.text for message in self.messages if message.kind == "decision"]
        self._left = [message for message in self.messages if message.kind in ("turn", "note")]
        self._tags = iter([call.arguments.tag for _, call in calls_of(self.task.script)])
        journal = MemoryJournal(self.book, "w1", lambda: 0.0)
        self.tools: dict[str, ScriptedTool] = {tool.name: tool for tool in make_tools(journal, die=die)}

    def run(self) -> None:
        """To the end: one-shot tasks end, interactive ones wait with no message left."""
        self.said.append(UserSaid(self.task.goal))
        while True:
            ended = self._turn()
            self.ends.append(ended)
            if not self.task.interactive:
                if ended.ends == "failed" or not self._take("end"):
                    self.refused = [message.key for message in self._left]
                    return
            elif not self._take("end"):
                if not self._left:
                    return
                assert self._take("wait"), "a waiting task gets a message or is done"

    def _take(self, where: str) -> int:
        count = self.land(where, self._left) if self._left else 0
        taken, self._left = self._left[:count], self._left[count:]
        self.said += [UserSaid(message.text) for message in taken]
        self._seq += count
        return count

    def _turn(self) -> Ended:
        cut = empty = 0
        while True:
            self._take("call")
            self.said += [UserSaid(text) for text in self._untold]
            self._untold.clear()
            reply = self._model_call()
            if reply is None:
                return Ended("failed", texts.LLM_ERROR, None)
            self._seq += 2
            seq = self._seq
            calls = tuple(
                CallMade(call_id(seq, index), call.tool, escape_all(call.input))
                for index, call in enumerate(reply.calls)
            )
            text = escape_text(reply.text)
            self.said.append(ModelSaid(text, calls))
            if reply.stop == "max_tokens":
                cut += 1
                self.said.append(UserSaid(texts.CONTINUE_TRUNCATED))
                if cut == texts.MAX_TRUNCATED_REPLIES:
                    return Ended("failed", texts.LLM_TRUNCATED, None)
                continue
            cut = 0
            for call in calls:
                self.said.append(self._tool_call(call))
            if self.calls and self.calls[-1].source == "parked":
                self._untold.append(GO_ON)
            if calls:
                empty = 0
                continue
            if text:
                return Ended("answer", None, text)
            empty += 1
            if empty == texts.MAX_EMPTY_REPLIES:
                return Ended("no_answer", None, None)

    def _model_call(self) -> ModelReply | None:
        request = ModelRequest(AGENT, SYSTEM, (*self.tools, *TOOL_OF.values()), tuple(self.said))
        provider = ScriptedProvider(die, pause=lambda seconds: None)
        for _interrupted in range(texts.MAX_MODEL_ATTEMPTS):
            try:
                for attempt in range(1, self.retry_attempts + 1):
                    try:
                        return provider.call(request, attempt=attempt)
                    except ProviderError as error:
                        if str(error).startswith("refused"):
                            raise AssertionError("the provider refused a well-formed request") from error
                        if not error.retryable:
                            return None
                return None
            except Died:
                self.deaths += 1
        return None

    def _tool_call(self, call: CallMade) -> ToolAnswered:
        tag = next(self._tags)
        if call.tool not in self.tools:
            return self._waiting_call(call, tag)
        assert call.input["tag"] == tag
        tool = self.tools[call.tool]
        denied, given = self._gate(call)
        if denied:
            self.calls.append(CallRecord(tag, call.tool, "denied", True, 0))
            return ToolAnswered(call.id, "it was not to be", True)
        call = CallMade(call.id, call.tool, given)
        parks, asks = self.task.script.parks, str(call.input.get("gate")).startswith("approve")
        source, start, result = "ran", 1, None
        while result is None:
            try:
                result = self._run(tool, call, start)
                if self.loses(tag):
                    source, result = "unknown", ToolResult(texts.OUTCOME_UNKNOWN, is_error=True)
            except Died:
                self.deaths += 1
                context = FakeContext(self.task.id, call.id, start)
                found = tool.recover(call.input, context) if isinstance(tool, RecoverableTool) else None
                if found is not None:
                    source, result = "recovered", found
                elif tool.flags.retry_safe and start < MAX_ATTEMPTS and not (parks and asks):
                    start += 1
                else:
                    source = "parked" if parks else "unknown"
                    result = ToolResult(texts.OUTCOME_UNKNOWN, is_error=True)
        self.calls.append(CallRecord(tag, call.tool, source, result.is_error, start))
        self._seq += 2 * start
        return ToolAnswered(call.id, escape_text(result.output), result.is_error)

    def _gate(self, call: CallMade) -> tuple[bool, Any]:
        """Whether it may not start, and what it runs with."""
        tool = self.tools[call.tool]
        decision = ScriptedGate().decide(GatedCall(self.task.id, AGENT, call.id, call.tool, call.input, tool.flags))
        if isinstance(decision, Deny):
            return True, call.input
        given = call.input if decision.input is UNSET else decision.input
        if isinstance(decision, Ask) and self.depth == 0:
            return self._decisions.pop(0) != texts.APPROVE, given
        return False, given

    def _waiting_call(self, call: CallMade, tag: str) -> ToolAnswered:
        source, is_error = "woken", False
        match call.tool:
            case "Agent" | "AgentGroup":
                members = call.input.get("members", [call.input])
                background = call.input.get("background", False)
                if self.depth >= 3:
                    source, is_error = "ran", True
                else:
                    born = [self._child(call, member, number) for number, member in enumerate(members, 1)]
                    source = "ran" if background else "woken"
                    is_error = not background and all(child.ends[-1].ends == "failed" for child in born)
            case "SubagentHandback":
                assert call.input["report"] and self.depth > 0
                source = "ran"
            case "ScheduleWakeup":
                assert call.input["delay_seconds"] > 0
            case "AskUser" | "WaitForEvent":
                assert call.input["question" if call.tool == "AskUser" else "event_kind"]
                is_error = "timeout_seconds" in call.input
            case "Bash":
                assert call.input["background"] is True
                tag_in_command, _ = shell_of(call.input["command"])
                assert tag_in_command == tag
                source = "ran"
                self.jobs.append(call.id)
                self._untold.append(f"Job {call.id} has ended, or is lost.")
            case "BashOutput" | "KillBash":
                assert call.input["job"] in self.jobs
                source, is_error = "ran", True
            case "CronCreate":
                source = "ran"
                self.crons.append(call.id)
                self._untold.append(call.input["prompt"])
            case "CronDelete":
                source = "ran"
                self.crons.remove(call.input["cron"])
            case other:
                raise AssertionError(f"there is no tool {other!r}")
        self.calls.append(CallRecord(tag, call.tool, source, is_error, 1))
        self._seq += 2
        return ToolAnswered(call.id, "whatever came of it", is_error)

    def _child(self, call: CallMade, member: dict[str, str], number: int) -> FakeRuntime:
        assert member["agent"] == AGENT
        task = ScriptedTask(f"{self.task.id}.{call.id}.{number}", from_goal(member["prompt"]))
        child = FakeRuntime(task, [], self.land, self.retry_attempts, self.depth + 1, book=self.book)
        child.run()
        self.children.append(child)
        return child

    def _run(self, tool: ScriptedTool, call: CallMade, start: int) -> ToolResult:
        try:
            return tool.run(call.input, FakeContext(self.task.id, call.id, start))
        except Exception as error:
            return ToolResult(str(error), is_error=True)


def escape_all(value: Any) -> Any:
    """The runtime's edge, written anew: every text in a JSON value, escaped."""
    if isinstance(value, str):
        return escape_text(value)
    if isinstance(value, dict):
        return {escape_text(key): escape_all(child) for key, child in value.items()}
    return [escape_all(child) for child in value] if isinstance(value, list) else value


def politely(where: str, left: list[ScheduledMessage]) -> int:
    """Turn messages only while the task waits, notes before the first model call that comes."""
    if where == "wait":
        return 1
    return int(where == "call" and left[0].kind == "note")
