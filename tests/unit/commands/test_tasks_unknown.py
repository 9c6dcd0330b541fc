"""A command whose write was not answered asks again with the same key until it knows, or says that it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from noeta.backends.stores.sqlite import SqliteStore
from noeta.commands.tasks import known
from noeta.commands.tasks.place import UNREACHABLE
from noeta.core.errors import CommitUnknown, StoreUnavailable
from noeta.core.store import Store
from noeta.core.world import Event
from noeta.testing.faults import Fault, FaultyStore, Kind
from tests.actors import SetWorld
from tests.unit.commands.shell import Shell

ME = "tests.unit.commands.test_tasks_unknown"


def landed(place: str) -> Store:
    return FaultyStore(SqliteStore(place), [Fault(Kind.LANDED, "post"), Fault(Kind.LANDED, "create")])


def lost(place: str) -> Store:
    """Nothing landed, and then the store could not be asked for a moment."""
    faults = [Fault(Kind.NOT_LANDED, "post"), Fault(Kind.UNAVAILABLE, "post", 2), Fault(Kind.NOT_LANDED, "create")]
    return FaultyStore(SqliteStore(place), faults)


def down(place: str) -> Store:
    return FaultyStore(SqliteStore(place), [Fault(Kind.UNAVAILABLE, "post")])


@pytest.mark.parametrize("fault", ["landed", "lost"])
def test_an_unknown_outcome_is_asked_about_until_it_is_known(
    fault: str, tmp_path: Path, shell: Shell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "PAUSE_SECONDS", 0.001)
    wire = Shell(f"factory:{ME}:{fault}:{tmp_path / 'tasks.db'}", capsys)
    said = [
        wire.tasks("create", "t", "--agent", "main", "--goal", "x"),
        wire.tasks("say", "t", "hi"),
        wire.tasks("event", "t", "paid"),
        wire.tasks("close", "t"),
        wire.tasks("cancel", "t"),
    ]

    assert [one.code for one in said] == [0] * 5, said
    assert all("not known yet whether this was written, asking again" in one.err for one in said)
    unread = shell.json("show", "t")["unread"]
    assert [one["item"]["type"] for one in unread] == []
    log = shell.json("show", "t")["log"]
    assert [one["event"]["type"] for one in log] == ["TaskCreated", "TaskCancelled"]
    assert shell.json("show", "t")["task"]["inbox_seq"] == 4, "each was written once"


def test_nothing_is_repeated_that_was_surely_not_written(
    tmp_path: Path, shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.create()
    said = Shell(f"factory:{ME}:down:{tmp_path / 'tasks.db'}", capsys).tasks("say", "t", "hi")

    assert said.code == UNREACHABLE
    assert "the store cannot be asked, nothing was written" in said.refusal
    assert shell.json("show", "t")["unread"] == []


class Hasty(SetWorld):
    """Implements ``noeta.core.world.World``: a pause moves the clock, and takes no time."""

    def event(self) -> Event:
        return Pause(self)


class Pause:
    """Implements ``noeta.core.world.Event``: nobody sets it."""

    def __init__(self, world: Hasty) -> None:
        self._world = world

    def set(self) -> None:
        raise AssertionError("nobody sets it")

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self._world.seconds += timeout
        return False


def test_it_gives_up_at_a_deadline_and_says_how_to_repeat_it(capsys: pytest.CaptureFixture[str]) -> None:
    tries: list[float] = []
    world = Hasty()

    def ask() -> None:
        tries.append(world.monotonic())
        raise CommitUnknown("no answer") if len(tries) % 2 else StoreUnavailable("no connection")

    with pytest.raises(CommitUnknown, match=r"after 5 s it is still unknown .* repeat it with --message-id m1"):
        known.until_known(world, ask, "with --message-id m1", seconds=5.0)

    assert tries[-1] - tries[0] == 5.0
    assert capsys.readouterr().err.count("asking again") == 1
