"""A spoiled store call shows what a broken connection shows, and what became of it is told."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.chaos.instrument import ChaosWorld
from noeta.chaos.orders import Aimed, Became, Control, Orders
from noeta.chaos.schedule import Kind
from noeta.chaos.spoiled import SpoiledStore
from noeta.core.errors import CommitUnknown, NoetaError, StoreUnavailable, UnknownTask
from noeta.core.store import NewTask, Store
from noeta.core.wake import HumanResponseReceived
from noeta.runtime.process import PointStore
from tests.unit.chaos.test_orders import born, control_in

SAID: Final = HumanResponseReceived(text="hello")


class Script:
    """Spoils the calls it is told to, in order, and remembers what became of them."""

    def __init__(self, *kinds: Kind, seconds: float = 0.0) -> None:
        self.left = [Aimed(f"f{number}", kind, "post.before", 1, seconds) for number, kind in enumerate(kinds)]
        self.became: list[tuple[str, bool]] = []
        self.told = threading.Event()

    def spoils(self, verb: str) -> Aimed | None:
        return self.left.pop(0) if self.left else None

    def spoiled(self, aimed: Aimed, became: str, *, hurt: bool) -> None:
        self.became.append((became, hurt))
        self.told.set()


def filled() -> MemoryStore:
    store = MemoryStore(lambda: 1.0)
    store.create(NewTask("t", "agent", "goal"))
    return store


def unread(store: Store) -> int:
    return len(store.read("t").unread)


@pytest.mark.parametrize(
    ("kind", "error", "landed", "became"),
    [
        (Kind.STORE_UNAVAILABLE, StoreUnavailable, 0, ("not sent", True)),
        (Kind.UNKNOWN_LOST, CommitUnknown, 0, ("lost", True)),
        (Kind.UNKNOWN_LANDED, CommitUnknown, 1, ("landed", True)),
    ],
)
def test_a_write_fails_as_its_kind_says(
    kind: Kind, error: type[NoetaError], landed: int, became: tuple[str, bool]
) -> None:
    inner, script = filled(), Script(kind)
    store = SpoiledStore(inner, script)

    with pytest.raises(error):
        store.post("t", SAID, "k")
    assert unread(inner) == landed
    assert script.became == [became]
    assert store.post("t", SAID, "k2").outcome == "stored"  # the next one is whole


def test_a_late_write_lands_after_its_sender_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    may_land = threading.Event()
    monkeypatch.setattr("noeta.chaos.spoiled.time.sleep", lambda seconds: may_land.wait(60.0))
    inner, script = filled(), Script(Kind.UNKNOWN_LATER, seconds=1.0)

    with pytest.raises(CommitUnknown):
        SpoiledStore(inner, script).post("t", SAID, "k")
    assert (unread(inner), script.became) == (0, [])
    may_land.set()
    assert script.told.wait(60.0)
    assert (unread(inner), script.became) == (1, [("landed late", True)])


def test_a_slow_call_waits_and_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("noeta.chaos.spoiled.time.sleep", waits.append)
    script = Script(Kind.SLOW, seconds=1.5)

    posted = SpoiledStore(filled(), script).post("t", SAID, "k")
    assert (posted.outcome, waits, script.became) == ("stored", [1.5], [("sent late", True)])


@pytest.mark.parametrize("kind", [Kind.UNKNOWN_LOST, Kind.STORE_UNAVAILABLE])
def test_a_read_has_no_unknown_outcome(kind: Kind) -> None:
    with pytest.raises(StoreUnavailable):
        SpoiledStore(filled(), Script(kind)).read("t")


def test_what_the_store_refuses_was_not_spoiled() -> None:
    script = Script(Kind.UNKNOWN_LANDED)

    with pytest.raises(UnknownTask):
        SpoiledStore(filled(), script).post("nobody", SAID, "k")
    assert script.became == [("refused: unknown_task", False)]


def test_a_late_write_that_is_refused_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noeta.chaos.spoiled.time.sleep", lambda seconds: None)
    script = Script(Kind.UNKNOWN_LATER)

    with pytest.raises(CommitUnknown):
        SpoiledStore(filled(), script).post("nobody", SAID, "k")
    assert script.told.wait(60.0)
    assert script.became == [("refused when it came: unknown_task", True)]


def handle(control: Control, incarnation: int = 1) -> Store:
    """A worker's store handle, as its process puts it together."""
    world = ChaosWorld(born(control, incarnation=incarnation))
    return PointStore(SpoiledStore(filled(), world), world)


def test_a_worker_spoils_the_nth_call_it_was_told_and_says_so(tmp_path: Path) -> None:
    control = control_in(tmp_path)
    control.order("w1", Orders(aimed=(Aimed("f", Kind.UNKNOWN_LANDED, "post.before", 2),)))
    store = handle(control)

    assert store.post("t", SAID, "k1").outcome == "stored"
    store.read("t")
    with pytest.raises(CommitUnknown):
        store.post("t", SAID, "k2")
    assert store.post("t", SAID, "k3").outcome == "stored"
    found = control.struck("f")
    assert found is not None
    assert (found.kind, found.point, found.facts) == ("unknown_landed", "post.before", {"task": "t"})
    assert control.became("f") == Became("landed", True)


def test_only_the_passings_that_are_named_count(tmp_path: Path) -> None:
    control = control_in(tmp_path)
    aimed = (
        Aimed("other task", Kind.STORE_UNAVAILABLE, "post.before", 1, where={"task": "u"}),
        Aimed("other process", Kind.STORE_UNAVAILABLE, "post.before", 1, incarnation=2),
        Aimed("this", Kind.UNKNOWN_LOST, "post.before", 1, incarnation=1, where={"task": "t"}),
    )
    control.order("w1", Orders(aimed=aimed))

    with pytest.raises(CommitUnknown):
        handle(control).post("t", SAID, "k")
    assert [control.struck(one.id) is not None for one in aimed] == [False, False, True]
    with pytest.raises(StoreUnavailable):
        handle(control, incarnation=2).post("t", SAID, "k")


def test_of_two_faults_at_one_call_one_strikes_and_the_other_is_not_said_to(tmp_path: Path) -> None:
    """A strike that was taken and never told of would be waited for until the heal gives up."""
    control = control_in(tmp_path)
    aimed = tuple(Aimed(id, Kind.UNKNOWN_LANDED, "post.before", 1) for id in ("first", "second"))
    control.order("w1", Orders(aimed=aimed))
    store = handle(control)

    with pytest.raises(CommitUnknown):
        store.post("t", SAID, "k1")
    assert store.post("t", SAID, "k2").outcome == "stored"
    assert control.became("first") == Became("landed", True)
    assert control.struck("second") is None


def test_a_call_of_another_thread_is_left_alone(tmp_path: Path) -> None:
    """Between a point and its call another thread may call: the strike is this thread's."""
    control = control_in(tmp_path)
    control.order("w1", Orders(aimed=(Aimed("f", Kind.UNKNOWN_LOST, "post.before", 1),)))
    world = ChaosWorld(born(control))
    store = SpoiledStore(filled(), world)
    world.point("post.before", task="t")
    outcomes: list[str] = []
    other = threading.Thread(target=lambda: outcomes.append(store.post("t", SAID, "k1").outcome))
    other.start()
    other.join()

    assert outcomes == ["stored"]
    with pytest.raises(CommitUnknown):
        store.post("t", SAID, "k2")
