"""A step that takes the interpreter for itself. (One inside a call that never gives it up:
tests/cluster/test_held_interpreter.py.)"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from noeta.core.store import Claim, Renewal
from noeta.core.task import Status
from noeta.core.tool import ToolContext
from noeta.runtime.threads import ThreadWorld
from tests.actors import PATIENCE_SECONDS, Effect, Model, asks, engine, says, wait_until
from tests.unit.runtime.scene import Scene

THREADS = 16
RENEWALS = 10
"""So many while the step spins; a keeper that waited for the step would make none."""

LEASE_SECONDS = 60.0
BEAT_SECONDS = 0.02


@pytest.mark.holds("guarantee/lease-while-it-runs")
def test_renewals_go_on_beside_a_step_that_spins_in_sixteen_threads() -> None:
    """The keeper shares the interpreter with the work it vouches for, and nothing else. Keeps: one-writer.

    https://github.com/PrefectHQ/prefect/pull/21276 , https://github.com/agno-agi/agno/pull/9512 ,
    https://github.com/hatchet-dev/hatchet/issues/322
    """
    spinning, renewed = threading.Event(), threading.Event()
    paid: list[tuple[str, int]] = []

    def turn(together: threading.Barrier, until: float) -> None:
        together.wait(PATIENCE_SECONDS)
        spinning.set()
        while not renewed.is_set() and time.monotonic() < until:
            sum(range(1_000))

    def spin(ctx: ToolContext) -> None:
        together = threading.Barrier(THREADS)
        until = time.monotonic() + PATIENCE_SECONDS
        others = [threading.Thread(target=turn, args=(together, until), daemon=True) for _ in range(THREADS - 1)]
        for other in others:
            other.start()
        turn(together, until)
        for other in others:
            other.join()

    scene = Scene(
        engine(Model((asks("spin"), says())), Effect("spin", paid, after=spin)),
        lease_seconds=LEASE_SECONDS,
        heartbeat_interval=BEAT_SECONDS,
    )
    renew = scene.memory.renew
    held: list[str] = []

    def counted(claims: Claim | Sequence[Claim], lease_seconds: float) -> tuple[Renewal, ...]:
        answers = renew(claims, lease_seconds)
        if spinning.is_set() and not renewed.is_set():
            held.extend(answer.outcome for answer in answers)
            if len(held) >= RENEWALS:
                renewed.set()
        return answers

    scene.memory.renew = counted  # type: ignore[method-assign]
    scene.create()
    ticking = ThreadWorld().spawn("tick", lambda: _ignore(scene.loop.tick()))
    wait_until(renewed, f"{RENEWALS} renewals beside the spinning step")

    assert ticking.done.wait(PATIENCE_SECONDS)
    assert held == ["held"] * RENEWALS
    assert paid == [("t:3-0", 1)]
    assert scene.signals.kinds() == []
    assert (scene.memory.task("t").status, scene.memory.task("t").epoch) == (Status.TERMINAL, 1)


def _ignore(answer: object) -> None:
    pass
