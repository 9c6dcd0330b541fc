"""The simulator is tested: bugs are planted in the runner and the store, and the exhaustive search finds each.

Each names the law that must convict it, and within how many executions of the set, from its first script on. A
bug that the set does not find is a hole in the set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from noeta.backends.stores import memory
from noeta.backends.stores.memory import MemoryStore
from noeta.chaos.sim import render
from noeta.chaos.sim.cases import CASES
from noeta.chaos.sim.exhaustive import Bad, Row, search
from noeta.chaos.sim.modes import MODES
from noeta.chaos.sim.run import Execution
from noeta.chaos.sim.scheduler import SimProcess
from noeta.core import lower, task, texts
from noeta.core.actions import FailTurn
from noeta.core.errors import Conflict
from noeta.core.events import ToolStarted
from noeta.core.fold import CallState, TaskState
from noeta.core.ids import sha256_text
from noeta.core.model import ModelRequest
from noeta.core.runner import calls
from noeta.core.runner.calls import Undecided
from noeta.core.runner.desk import Desk
from noeta.core.runner.outcome import Recorded, finished
from noeta.core.runner.runner import Runner
from noeta.core.store import Claim, Continue
from noeta.core.task import Cause
from noeta.runtime.dispatcher import Lease
from noeta.runtime.worker import WorkerLoop

Plant = Callable[[pytest.MonkeyPatch], None]


def tool_started_after_the_tool(patch: pytest.MonkeyPatch) -> None:
    def start_call(self: Runner, call: CallState) -> None:
        self._desk.note(ToolStarted(call.call.id, call.starts + 1))
        recorded = calls.run_call(self._engine, self._world, self._held, self._state, call)
        self._desk.flush(Continue())
        self._record(recorded)

    patch.setattr(Runner, "_run_call", start_call)


def every_tool_is_run_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calls, "recover_call", lambda engine, world, held, state, call: Undecided.RUN_AGAIN)


def an_interrupted_call_is_not_looked_up(patch: pytest.MonkeyPatch) -> None:
    def found(engine: object, world: object, held: object, state: object, call: CallState) -> object:
        return Recorded(finished(call, "it surely went well", is_error=False, source="recovered"))

    patch.setattr(calls, "recover_call", found)


def the_third_start_is_not_the_last(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calls, "MAX_ATTEMPTS", 10)


def a_model_call_is_asked_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(texts, "MAX_MODEL_ATTEMPTS", 10_000)


def a_model_call_is_given_up_at_once(patch: pytest.MonkeyPatch) -> None:
    from noeta.core import actions
    from noeta.core.runner import runner

    def decide(state: TaskState, *, ordered: bool = True) -> object:
        action = actions.next_action(state, ordered=ordered)
        interrupted = isinstance(action, actions.CallModel) and action.attempt > 1
        return FailTurn(texts.LLM_ERROR, texts.MODEL_CALL_INTERRUPTED) if interrupted else action

    patch.setattr(runner, "next_action", decide)


def a_request_is_not_built_from_the_log_alone(patch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    hash_of = ModelRequest.hash

    def counted(self: ModelRequest) -> str:
        asked.append(1)
        return sha256_text(f"{hash_of(self)}{len(asked)}")

    patch.setattr(ModelRequest, "hash", counted)


def the_store_has_no_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryStore, "_fenced", lambda self, claim, now: self._task(claim.task_id))


def the_fence_forgets_the_lease(patch: pytest.MonkeyPatch) -> None:
    def holds(row: task.TaskRow, claim: Claim, now: int) -> bool:
        return row.epoch == claim.epoch and row.token == claim.token

    patch.setattr(memory, "_holds", holds)


def a_claim_keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(task.TRANSITIONS, Cause.CLAIM, replace(task.TRANSITIONS[Cause.CLAIM], raises_epoch=False))


def an_item_stays_unread_after_its_take(patch: pytest.MonkeyPatch) -> None:
    apply = MemoryStore._apply

    def forgetful(self: MemoryStore, claim: Claim, write: lower.Write, now: int) -> Any:
        bodies = [(item, item.body) for item in self._tasks[claim.task_id].items]
        answer = apply(self, claim, write, now)
        for item, body in bodies:
            if body is not None and item.taken_seq is not None:
                item.taken_seq, item.body = None, body
        return answer

    patch.setattr(MemoryStore, "_apply", forgetful)


def suspending_does_not_look_at_the_inbox(patch: pytest.MonkeyPatch) -> None:
    honest = lower.lower_commit
    patch.setattr(lower, "lower_commit", lambda *args: replace(honest(*args), inbox_seen=None))


def a_known_message_does_not_keep_the_task_awake(patch: pytest.MonkeyPatch) -> None:
    """The bug that the first exhaustive search found in the runner."""
    patch.setattr(Desk, "_seen", lambda self, next: self._inbox_seen)


def what_was_acknowledged_is_lost(patch: pytest.MonkeyPatch) -> None:
    apply = MemoryStore._apply

    def lossy(self: MemoryStore, claim: Claim, write: lower.Write, now: int) -> Any:
        answer = apply(self, claim, write, now)
        kept = self._tasks[claim.task_id]
        if len(kept.entries) == 6:
            kept.entries.pop()
            kept.row = replace(kept.row, last_seq=5)
        return answer

    patch.setattr(MemoryStore, "_apply", lossy)


@dataclass(frozen=True, slots=True)
class Planted:
    """``laws``: one of these must convict it. ``within``: executions."""

    plant: Plant
    laws: frozenset[str]
    within: int


def planted(plant: Plant, within: int, *laws: str) -> Planted:
    return Planted(plant, frozenset(laws), within)


PLANTED = (
    planted(tool_started_after_the_tool, 100, "effect-at-most-once", "script-finished"),
    planted(every_tool_is_run_again, 100, "effect-at-most-once"),
    planted(an_interrupted_call_is_not_looked_up, 100, "effect-at-most-once"),
    planted(the_third_start_is_not_the_last, 26, "effect-at-most-once", "bounded"),
    planted(a_model_call_is_asked_for_ever, 26, "bounded", "comes-to-an-end"),
    planted(a_model_call_is_given_up_at_once, 100, "script-finished"),
    planted(a_request_is_not_built_from_the_log_alone, 100, "same-request"),
    planted(the_store_has_no_fence, 140, "one-writer"),
    planted(the_fence_forgets_the_lease, 140, "one-writer"),
    planted(a_claim_keeps_the_epoch, 100, "epochs-rise"),
    planted(an_item_stays_unread_after_its_take, 26, "taken-once"),
    planted(suspending_does_not_look_at_the_inbox, 900, "never-stuck"),
    planted(a_known_message_does_not_keep_the_task_awake, 900, "never-stuck"),
    planted(what_was_acknowledged_is_lost, 1, "acked-stays"),
)


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.plant.__name__)
def test_a_planted_bug_is_found(
    bug: Planted, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    bug.plant(monkeypatch)

    found = search(stop_at_first=True)

    record_property("executions", found.executions)
    print(f"{bug.plant.__name__}: execution {found.executions}")
    assert found.bad, f"not found in {found.executions} executions"
    (row, bad), *_ = found.bad
    guilty = convicted(bad)
    assert bug.laws & guilty, f"convicted by {sorted(guilty)}:\n" + "\n".join(render.story(row, bad, None))
    assert found.executions <= bug.within, f"found only by execution {found.executions}"


def convicted(bad: Bad) -> frozenset[str]:
    return bad.result.convicted


# -- the self-check: a kill must not let a `finally` reach the store ------------------------------------------


@pytest.fixture
def tidying_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that gives its task back in a ``finally``, which no SIGKILL would let it do."""
    drive = WorkerLoop._drive

    def tidy(self: WorkerLoop, lease: Lease) -> None:
        try:
            drive(self, lease)
        finally:
            try:
                self._dispatcher.release(lease)
            except Conflict:
                pass  # the step ended well: there is nothing left to give back

    monkeypatch.setattr(WorkerLoop, "_drive", tidy)


@pytest.mark.usefixtures("tidying_worker")
def test_a_finally_of_a_killed_process_does_not_reach_the_store() -> None:
    found = search([CASES["plain"]], [MODES["kill"]])

    assert found.bad == []


@pytest.mark.usefixtures("tidying_worker")
def test_a_kill_that_lets_a_finally_reach_the_store_turns_the_run_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimProcess, "check", lambda self: None)

    found = search([CASES["plain"]], [MODES["kill"]], stop_at_first=True)

    assert any("killed-is-silent" in convicted(bad) for _, bad in found.bad)


def test_a_loop_that_ends_with_an_error_turns_the_run_red(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: WorkerLoop) -> bool:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(WorkerLoop, "tick", broken)

    result = Execution(CASES["plain"]).run()

    assert "loop-outlives" in convicted(Bad((), result))
    assert "loop-outlives" in "\n".join(render.story(Row("plain", "kill", 0), Bad((), result), None))
