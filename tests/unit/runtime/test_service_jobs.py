"""The background jobs of `noeta worker`: what they get from it, and that nothing of them is left when it has ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.core.jobs import JobSpec
from noeta.core.store import NewTask
from noeta.runtime.app import WorkerApp
from noeta.runtime.service import WorkerService
from noeta.runtime.threads import ThreadWorld
from tests.actors import Model, asks, engine, says
from tests.unit.runtime.fake_jobs import StartsJob
from tests.unit.runtime.jobs.stage import WAIT_SECONDS, children_named, wait_until

WITHOUT = "nothing-but-a-test-may-see-this"


def test_a_service_keeps_its_store_from_its_jobs_and_ends_their_guard_with_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NOETA_STORE", "PGPASSWORD"):
        monkeypatch.setenv(name, WITHOUT)
    monkeypatch.setenv("OURS", "given")
    seen = tmp_path / "seen"
    spec = JobSpec(f"env >{seen}.part; mv {seen}.part {seen}; sleep 600")
    agent = engine(Model((asks("background"), says("it runs"))), StartsJob(spec))
    memory = MemoryStore()
    memory.create(NewTask("t", "agent", "goal", interactive=True))
    service = WorkerService(memory, WorkerApp(lambda task: agent), name="w", poll_interval=0.01)
    given_back: list[bool] = []
    running = ThreadWorld().spawn("service", lambda: given_back.append(service.run()))
    try:
        wait_until(seen.exists, "the job looked")
        assert len(children_named(os.getpid(), "noeta-guard")) == 1
    finally:
        service.stop()
        assert running.done.wait(WAIT_SECONDS)

    assert "OURS=given" in seen.read_text().splitlines()
    assert WITHOUT not in seen.read_text()
    assert given_back == [True]
    assert children_named(os.getpid(), "noeta-guard") == set()
