"""Each kind of database fault fires and is healed; of a server that is not ours it is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from invariants.evidence import Verb
from noeta.chaos.nemesis.ripeness import WARMED_UP_ANSWERS
from noeta.chaos.schedule import After, Fault, Kind
from noeta.core.errors import NoetaError
from noeta.core.task import TaskRow
from noeta.testing.postgres import PostgresSource, Server, fresh_schema
from tests.cluster.faults.stage import Stage, stage, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def scene(tmp_path: Path, postgres_source: PostgresSource) -> Iterator[Stage]:
    if postgres_source.dsn is not None:
        pytest.skip("the server was given by address: it is not ours to stop")
    with Server(postgres_source) as server, fresh_schema(server.dsn) as lease:
        with stage(tmp_path, server.dsn, lease.name, server=server) as ready:
            yield ready


RESTART = Fault("db", Kind.DB_RESTART, "server", After(0.0), {"seconds": 1.5, "mode": "fast"})
CRASH = Fault("db", Kind.DB_RESTART, "server", After(0.0), {"seconds": 0.5, "mode": "immediate"})
KILL = Fault("db", Kind.DB_KILL, "server", After(0.0), {"seconds": 1.0})


@pytest.mark.parametrize("fault", [RESTART, CRASH, KILL], ids=["fast", "immediate", "kill"])
def test_the_server_goes_away_and_comes_back_and_the_work_goes_on(scene: Stage, fault: Fault) -> None:
    server = scene.server
    assert isinstance(server, Server)
    before = server.pid
    with scene.nemesis(fault) as nemesis:
        wait_until("it is down", lambda: not server.is_running())
        wait_until("it is back", server.is_running)
        result = nemesis.stop_and_heal()
    line = next(line for line in scene.lines if line.fault == "db")

    assert server.pid not in (None, before)
    assert (line.kind, line.process, line.effective) == (fault.kind, "server", True)
    assert line.ended_at is not None and line.ended_at - line.at >= fault.seconds("seconds") * 1_000_000
    assert {"w1-1", "w2-1", "w3-2"} <= set(line.workers) and line.held
    assert result.effective == {fault.kind: 1} and not result.not_healed and not result.crashes
    wait_until("tasks end", lambda: any(row.status.value == "terminal" for row in patient(scene)))


def test_a_storm_that_ends_while_the_server_is_down_starts_it(scene: Stage) -> None:
    server = scene.server
    assert isinstance(server, Server)
    fault = Fault("db", Kind.DB_KILL, "server", After(0.0), {"seconds": 100.0})
    with scene.nemesis(fault) as nemesis:
        wait_until("it is down", lambda: not server.is_running())
        result = nemesis.stop_and_heal()

    assert server.is_running()
    assert not result.not_healed and sorted(scene.cluster.alive()) == ["w1", "w2", "w3"]


def test_a_kill_while_the_server_is_down_still_knows_what_was_held(scene: Stage) -> None:
    """The store cannot be asked; the record that the process itself kept must do."""
    server = scene.server
    assert isinstance(server, Server)
    scene.load(9)
    wait_until("w1 is warmed up", lambda: scene.cluster.answers(scene.worker("w1")) >= WARMED_UP_ANSWERS)
    scene.load(9)
    faults = (
        Fault("db", Kind.DB_KILL, "server", After(0.0), {"seconds": 4.5}),
        Fault("k", Kind.KILL, "w1", After(0.01), {"respawn_seconds": 0.1}),
    )
    with scene.nemesis(*faults) as nemesis:
        wait_until("it is down", lambda: not server.is_running())
        wait_until("the kill struck", lambda: nemesis.result().fired.get("kill") == 1)
        struck_while_down = not server.is_running()
        result = nemesis.stop_and_heal()
    line = next(line for line in scene.lines if line.fault == "k")

    assert struck_while_down
    assert not result.not_healed
    assert line.ended_at is not None and line.held
    granted = {(a.task, a.epoch) for a in scene.attempts(scene.cluster.all[0]) if a.verb is Verb.CLAIM}
    assert {(held.task, held.epoch) for held in line.held} <= granted


def test_faults_of_a_server_that_is_not_ours_are_refused_by_name(scene: Stage) -> None:
    server = scene.server
    assert isinstance(server, Server)
    scene.server = None
    with scene.nemesis(RESTART, Fault("x", Kind.DB_KILL, "server", After(0.0), {"seconds": 1.0})) as nemesis:
        result = nemesis.stop_and_heal()

    assert set(result.refused) == {"db_restart", "db_kill"}
    assert all("not ours" in reason for reason in result.refused.values())
    assert not result.fired and server.is_running()


def patient(scene: Stage) -> tuple[TaskRow, ...]:
    """The rows, or none while a connection of before the restart is found out."""
    try:
        return scene.store.tasks(queue=scene.config.queue)
    except NoetaError:
        return ()
