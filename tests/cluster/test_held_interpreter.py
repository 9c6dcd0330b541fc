"""A call that never gives the interpreter up: its worker can renew nothing, and hears of nothing, until it returns."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from noeta.backends.stores.pg_migrate import migrate
from noeta.core.events import TaskCompleted, ToolFinished
from noeta.core.runner import Engine
from noeta.core.tool import OnUnknown
from noeta.runtime.worker import WorkerLoop
from noeta.testing.postgres.clocked import ClockTable
from noeta.testing.profile import bundle
from tests.actors import Effect
from tests.cluster import timed_app
from tests.cluster.timed_site import TimedSite

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

START = 1_800_000_000
LEASE_SECONDS = 600
SECOND = 1_000_000


def test_a_call_that_holds_the_interpreter_loses_its_claim_and_its_effect_is_journalled_once(
    pg_schema: tuple[str, str], tmp_path: Path
) -> None:
    """The next owner calls its outcome unknown, what the old one brings is refused, and the old one goes on with other
    tasks. Keeps: one-writer, effect-at-most-once.

    https://github.com/PrefectHQ/prefect/pull/21276 , https://github.com/agno-agi/agno/pull/9512
    """
    dsn, schema = pg_schema
    migrate(dsn, schema)
    with (
        contextlib.closing(ClockTable(dsn, schema)) as clock,
        contextlib.closing(TimedSite(dsn, schema, tmp_path)) as site,
    ):
        clock.set(START * SECOND)
        site.create("t", "hold")
        site.start("w1", "--lease", str(LEASE_SECONDS))
        site.wait_for("the call", (tmp_path / timed_app.IN_CALL).exists)

        clock.set((START + LEASE_SECONDS) * SECOND)
        again: list[tuple[str, int]] = []
        other = Engine(timed_app.Provider(), tools={"hold": Effect("hold", again)}, on_unknown=OnUnknown.TELL)
        assert WorkerLoop(bundle(site.store, other), worker_id="w2").tick()
        log = site.events("t")
        (tmp_path / timed_app.GO_ON).touch()
        site.create("another")
        site.wait_for("the old owner goes on", lambda: site.has_ended("another"))
        site.end()

        assert [event.source for event in log if isinstance(event, ToolFinished)] == ["unknown"]
        assert log[-1] == TaskCompleted("done")
        assert site.events("t") == log
        assert site.store.task("t").epoch == 2
        assert ((tmp_path / timed_app.JOURNAL).read_text(), again) == ("t:3-0 1\n", [])
