"""Tasks that rest and look idle: parked for an unknown outcome, or kept by a worker that may be gone."""

from __future__ import annotations

from dataclasses import replace

from noeta.backends.open import open_store
from noeta.backends.stores.sqlite import SqliteStore
from noeta.core.events import TaskSuspended
from noeta.core.model import ModelReply
from noeta.core.runner import Engine
from noeta.core.store import Commit, NewTask, Store, Suspend
from noeta.core.tool import OnUnknown
from noeta.core.wake import NEXT_GOAL, HumanResponseReceived
from tests.actors import Deaths, Effect, Model, asks, drive, engine, says
from tests.unit.commands.shell import Shell
from tests.unit.runtime.machines import calls

LEASE = 60.0
REST = HumanResponseReceived(NEXT_GOAL)


def at(shell: Shell, seconds: float) -> Store:
    """The shell's store, so long after 2023-11-14 22:13:20 UTC: long before the shell's own time."""
    return SqliteStore(shell.store.removeprefix("sqlite:"), clock=lambda: 1_700_000_000.0 + seconds)


def parking(*replies: ModelReply) -> Engine:
    """Its tool kills its worker at its first start; a person is to say what became of that."""
    paying = engine(Model((*replies, says("bye"))), Effect("pay", [], after=Deaths(1)))
    return replace(paying, on_unknown=OnUnknown.PARK)


def park(shell: Shell, *replies: ModelReply, handle: str | None = None) -> Engine:
    """Task ``t`` of one worker that died, and another one that parked it."""
    agent = parking(*(replies or (asks("pay"),)))
    store = at(shell, 0.0)
    store.create(NewTask("t", "main", "pay the bill", interactive=True))
    store.close()
    for worker, seconds in (("w1", 2.0), ("w2", 2.0 + LEASE + 8.0)):
        store = at(shell, seconds)
        (claim,) = store.claim(worker, None, LEASE).claims
        drive(store, claim, agent, next_goal_handle=handle)
        store.close()
    return agent


def keep(shell: Shell, store: Store) -> None:
    """Task ``t`` rests, and ``w1`` keeps its claim."""
    store.create(NewTask("t", "main", "build", interactive=True))
    (claim,) = store.claim("w1", None, LEASE).claims
    store.append(claim, claim.last_seq, Commit((TaskSuspended(REST),), Suspend(REST, keep=True)))
    store.close()


# -- parked ------------------------------------------------------------------------------------------------


def test_a_parked_task_says_so_wherever_it_is_looked_at(shell: Shell) -> None:
    agent = park(shell)

    listed, shown, told = shell.done("list"), shell.done("show", "t"), shell.run("task", "t").lines

    parked, on = "parked: pay (call 3-0), its outcome is unknown", "go on with: noeta tasks say t TEXT"
    assert listed[1].endswith("a message (parked)")
    assert listed[2] == f"t is {parked}; {on}"
    assert shown[1].startswith("waits for: a message (parked), since ")
    assert (shown[2], shown[-1]) == (parked, on)
    assert (told[0], told[-1]) == (f"t: suspended, {parked}; waits for a message", on)

    shell.done("say", "t", "it was paid")
    shell.work(main=agent)
    assert "parked:" not in "\n".join([*shell.done("list"), *shell.done("show", "t")]), "it goes on"
    assert shell.run("task", "t").lines[0] == "t: suspended, waits for a message"


def test_a_message_that_is_not_taken_yet_ends_the_park(shell: Shell) -> None:
    park(shell)
    shell.done("say", "t", "it was paid")

    assert shell.json("list")["tasks"][0]["parked"] is False
    assert shell.run("task", "t").lines[0] == "t: pending, waits for a worker"


def test_a_parked_task_for_machines(shell: Shell) -> None:
    park(shell)
    store = open_store(shell.store)
    store.create(NewTask("u", "main", "x"))
    store.close()

    first, second = shell.json("list")["tasks"]
    shown = shell.json("show", "t")

    calls = [{"call": "3-0", "tool": "pay"}]
    assert (first["parked"], first["unknown_calls"]) == (True, calls)
    assert (shown["task"]["parked"], shown["unknown_calls"]) == (True, calls)
    assert (second["parked"], second["unknown_calls"]) == (False, [])
    assert shell.json("show", "u")["unknown_calls"] == []


def test_only_the_calls_that_were_cut_short_are_named(shell: Shell) -> None:
    """The first start of ``pay`` kills; of what stood before it the results are known."""
    paying = calls(("nothing", {}), ("pay", {}))
    park(shell, paying)

    assert shell.done("list")[2].startswith("t is parked: pay (call 3-1), its outcome is unknown; ")


def test_a_reply_of_very_many_calls_is_named_as_far_as_it_is_read(shell: Shell) -> None:
    park(shell, calls(*[("nothing", {})] * 60, ("pay", {})))

    assert shell.done("list")[2].startswith("t is parked: call 3-60, its outcome is unknown; ")
    assert shell.done("show", "t")[2] == "parked: pay (call 3-60), its outcome is unknown"


def test_a_host_that_rests_on_another_handle_is_answered_there(shell: Shell) -> None:
    park(shell, handle="desk")

    on = shell.done("show", "t")[-1]
    assert on == "go on with: noeta tasks answer --handle desk t TEXT"
    assert shell.done("answer", "--handle", "desk", "t", "it was paid") == [
        "t has the answer as item 1: it may go on now",
        "look: noeta tasks show t",
    ]


# -- kept --------------------------------------------------------------------------------------------------


def test_a_kept_task_names_who_keeps_it(shell: Shell) -> None:
    keep(shell, open_store(shell.store))

    assert shell.done("list")[1].endswith("a message (kept by w1)")
    assert shell.run("task", "t").lines[0] == "t: suspended, waits for a message (kept by w1)"


def test_the_keeper_is_who_ends_a_kept_task(shell: Shell) -> None:
    keep(shell, open_store(shell.store))

    assert shell.done("cancel", "t")[0] == "t rests, kept by w1, and has the order as item 1: w1 ends it soon"


def test_nobody_keeps_a_task_whose_lease_is_over(shell: Shell) -> None:
    keep(shell, at(shell, 0.0))

    stands = "a message (the lease of w1 ended 2023-11-14 22:14:20Z: any worker may take it)"
    assert shell.done("list")[1].endswith(stands)
    assert shell.done("show", "t")[1].startswith(f"waits for: {stands}, since ")
    assert shell.run("task", "t").lines[0] == f"t: suspended, waits for {stands}"
