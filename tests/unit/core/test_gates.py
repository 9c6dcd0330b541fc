"""What several gates say together, and what becomes of a gate that fails, or says what no log can keep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from msgspec import UNSET

from noeta.core import codec, limits
from noeta.core.errors import BadInput
from noeta.core.events import ApprovalAsked, ToolStarted
from noeta.core.gates import QUESTION_BYTES_MAX, Allow, Ask, Decision, Deny, GatedCall, approval_handle, decide
from noeta.core.runner import Engine
from noeta.core.tool import ToolFlags
from noeta.core.wake import HumanResponseReceived
from tests.actors import Model

CALL = GatedCall("t", "main", "3-0", "pay", {"euros": 9}, ToolFlags())


@dataclass
class Gate:
    """Says this, and remembers the input it saw."""

    decision: Any
    saw: Any = None

    def decide(self, call: GatedCall) -> Decision:
        self.saw = call.input
        if isinstance(self.decision, Exception):
            raise self.decision
        decision: Decision = self.decision
        return decision


def test_without_gates_a_call_may_start_as_it_is() -> None:
    assert decide((), CALL) == Allow()


def test_a_gate_sees_what_the_one_before_it_left_and_the_last_input_runs() -> None:
    gates = [Gate(Allow({"euros": 8})), Gate(Allow()), Gate(Ask("Really?", {"euros": 7})), Gate(Allow())]

    assert decide(gates, CALL) == Ask("Really?", {"euros": 7})
    assert [gate.saw for gate in gates] == [{"euros": 9}, {"euros": 8}, {"euros": 8}, {"euros": 7}]


def test_a_refusal_goes_before_every_question_and_ends_the_asking() -> None:
    late = Gate(Allow())

    assert decide([Gate(Ask()), Gate(Deny("no")), Gate(Deny("never")), late], CALL) == Deny("no")
    assert late.saw is None


def test_the_first_question_counts_and_one_without_words_names_the_tool() -> None:
    assert decide([Gate(Allow()), Gate(Ask("One?")), Gate(Ask("Two?"))], CALL) == Ask("One?")
    assert decide([Gate(Ask())], CALL) == Ask("May pay run?")


@pytest.mark.parametrize("null", [None, False, 0, "", [], {}])
def test_an_input_of_nothing_is_an_input(null: object) -> None:
    assert decide([Gate(Allow(null))], CALL) == Allow(null)


@pytest.mark.parametrize(
    ("nonsense", "says"),
    [
        (RuntimeError("its server is down"), "the gate Gate failed: RuntimeError: its server is down"),
        (None, "answered neither Allow nor Deny nor Ask"),
        (True, "answered neither Allow nor Deny nor Ask"),
        (Allow, "answered neither Allow nor Deny nor Ask"),
        (Deny(None), "answered neither Allow nor Deny nor Ask"),  # type: ignore[arg-type]
        (Ask(5), "answered neither Allow nor Deny nor Ask"),  # type: ignore[arg-type]
        (Allow({"n": float("nan")}), "rewrote the call to what cannot be kept: input.input.n: must be a finite number"),
        (Allow({"n": 1 << 64}), "integers fit 64 bits"),
        (Allow({"n": "\udcff"}), "must not contain a lone surrogate"),
        (Allow({1: 2}), "keys are text"),
        (Allow({"n": object()}), "no JSON value, found object"),
        (Allow([UNSET]), "rewrote the call to what cannot be kept"),
        (Ask("Pay?", {1, 2}), "no JSON value, found set"),
        (Allow("x" * limits.ITEM_BYTES_MAX), "bytes"),
        (Allow("\x01" * (limits.ITEM_BYTES_MAX // 4)), "bytes encoded"),
    ],
)
def test_a_gate_that_fails_or_answers_nonsense_denies(nonsense: Any, says: str) -> None:
    """Also if the others would let it start: running it ungated would be worse."""
    decision = decide([Gate(Allow()), Gate(nonsense), Gate(Allow({"euros": 1}))], CALL)

    assert isinstance(decision, Deny)
    assert says in decision.reason


def test_an_input_that_is_too_deep_for_its_entry_denies() -> None:
    """One level less, and it is recorded: the entry around it counts."""
    deep: Any = 1
    for _ in range(limits.JSON_DEPTH_MAX - 1):
        deep = [deep]

    allowed = decide([Gate(Allow(deep))], CALL)
    assert isinstance(allowed, Allow)
    codec.encode("entry", ToolStarted("3-0", 1, allowed.input))
    assert isinstance(decide([Gate(Allow([deep]))], CALL), Deny)


def test_an_input_that_holds_itself_denies() -> None:
    endless: list[Any] = []
    endless.append(endless)

    assert isinstance(decide([Gate(Allow(endless))], CALL), Deny)


def test_what_runs_is_what_the_log_gives_back() -> None:
    """A worker that recovers the call reads the log: it must not get other types than the one that ran it."""
    mine = {"to": ("a", "b")}

    decision = decide([Gate(Allow(mine))], CALL)

    assert decision == Allow({"to": ["a", "b"]})
    event = codec.decode_event(codec.encode("entry", ToolStarted("3-0", 1, decision.input)))
    assert isinstance(event, ToolStarted)
    assert event.input == decision.input
    mine["to"] = ("changed", "later")
    assert decision == Allow({"to": ["a", "b"]})


def test_an_input_that_is_the_same_after_all_is_not_repeated_in_the_log() -> None:
    assert decide([Gate(Allow({"euros": 1})), Gate(Allow({"euros": 9}))], CALL) == Allow()
    assert decide([Gate(Ask("Pay?", {"euros": 9}))], CALL) == Ask("Pay?")
    assert decide([Gate(Allow({"euros": True}))], replace(CALL, input={"euros": 1})) == Allow({"euros": True})


def test_a_gate_that_changes_the_input_it_was_shown_changes_nothing() -> None:
    """Another input is returned, not made behind the log's back. Keeps: same-request."""
    given = {"euros": 9, "to": ["ada"]}

    class Careless:
        def decide(self, call: GatedCall) -> Decision:
            call.input["euros"] = 1_000_000
            call.input["to"].append("mallory")
            return Allow()

    after = Gate(Allow())

    assert decide([Careless(), after], GatedCall("t", "main", "3-0", "pay", given, ToolFlags())) == Allow()
    assert given == after.saw == {"euros": 9, "to": ["ada"]}


def test_a_question_of_any_length_and_any_text_can_be_asked() -> None:
    """It often repeats the input; a long one is cut, and says so."""
    decision = decide([Gate(Ask("Run \udcff" + "\x01" * QUESTION_BYTES_MAX, "x" * 1_000))], CALL)

    assert isinstance(decision, Ask)
    assert decision.question.startswith("Run \\udcff\x01") and "[cut: the question had 8" in decision.question
    handle = HumanResponseReceived(approval_handle("t" * limits.TASK_ID_CHARS_MAX, "3-0"))
    codec.encode("entry", ApprovalAsked("3-0", handle, decision.question, decision.input))


def test_the_largest_input_and_question_fit_their_entry() -> None:
    large = "x" * (limits.ITEM_BYTES_MAX - 200)

    decision = decide([Gate(Ask("q" * limits.ITEM_BYTES_MAX, large))], CALL)

    assert isinstance(decision, Ask)
    handle = HumanResponseReceived(approval_handle("\x01" * limits.TASK_ID_CHARS_MAX, "123456-1234"))
    codec.encode("entry", ApprovalAsked("123456-1234", handle, decision.question, decision.input))


def test_gates_that_can_be_read_once_are_asked_about_every_call() -> None:
    class Never:
        def decide(self, call: GatedCall) -> Decision:
            return Deny("never")

    engine = Engine(Model(()), gates=iter([Never()]))  # type: ignore[arg-type]

    assert [len(list(engine.gates)), len(list(engine.gates))] == [1, 1]


@pytest.mark.parametrize(("field", "wrong"), [("gates", (object(),)), ("on_unknown", "park")])
def test_an_engine_refuses_what_is_no_gate_and_no_answer_to_an_unknown_outcome(field: str, wrong: Any) -> None:
    with pytest.raises(BadInput, match=field):
        Engine(Model(()), **{field: wrong})
