"""`noeta worker` told to stop, as a real process: what is not in the matrix of `tests/shutdown_matrix`."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from noeta.backends.open import open_store
from noeta.backends.stores.pg_migrate import migrate
from noeta.core.events import MessageTaken, TaskCancelled, TaskCompleted
from noeta.core.store import NewTask, Store
from noeta.core.task import Status
from noeta.core.wake import CANCEL, NEXT_GOAL, ControlReceived, HumanResponseReceived
from noeta.testing.postgres import PostgresSource, Server
from tests.shutdown_matrix import app

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

DEADLINE_SECONDS = 60.0
SCHEMA = "noeta"


class Site:
    """A store, one task, and a worker with the app of the matrix."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address = address
        self.folder = folder
        self.store: Store = open_store(address, schema=SCHEMA)
        self._workers: list[subprocess.Popen[bytes]] = []

    def create(self, doing: str) -> None:
        self.store.create(NewTask("t", "main", doing))

    def start(self, *options: str, ignoring: int | None = None) -> subprocess.Popen[bytes]:
        def ignore() -> None:
            if ignoring is not None:
                signal.signal(ignoring, signal.SIG_IGN)

        arguments = ["--store", self.address, "--schema", SCHEMA, "--app", f"{app.__name__}:make", "--poll", "0.1"]
        with (self.folder / "log").open("wb") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "noeta", "worker", *arguments, *options],
                env={**os.environ, app.FOLDER: str(self.folder)},
                stdout=log,
                stderr=log,
                preexec_fn=ignore,
            )
        self._workers.append(worker)
        return worker

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"{what}: {self.log}"
            assert any(worker.poll() is None for worker in self._workers), f"{what}: the worker ended: {self.log}"
            time.sleep(0.01)

    def wait_in_place(self) -> None:
        self.wait_for("the step", (self.folder / app.IN_PLACE).exists)

    def wait_for_log(self, words: str) -> None:
        self.wait_for(words, lambda: words in self.log)

    def go_on(self) -> None:
        (self.folder / app.GO_ON).touch()

    def ended(self, worker: subprocess.Popen[bytes]) -> int:
        code = worker.wait(DEADLINE_SECONDS)
        assert "Traceback" not in self.log
        return code

    def events(self) -> list[object]:
        return [entry.event for entry in self.store.read("t").entries]

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()
        self.store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    if request.param == "sqlite":
        address = f"sqlite:{tmp_path / 'tasks.db'}"
    else:
        address = request.getfixturevalue("postgres_site").dsn
    with contextlib.closing(Site(address, tmp_path)) as site:
        yield site


@pytest.fixture
def postgres_site(postgres_source: PostgresSource) -> Iterator[Server]:
    with Server(postgres_source) as server:
        migrate(server.dsn, SCHEMA)
        yield server


def test_a_cancel_during_the_drain_ends_the_task(site: Site) -> None:
    """https://github.com/procrastinate-org/procrastinate/issues/1598: nothing listens for aborts after SIGTERM."""
    site.create("tool returns")
    worker = site.start()
    site.wait_in_place()

    worker.send_signal(signal.SIGTERM)
    site.wait_for_log("stopping")
    site.store.post("t", ControlReceived(CANCEL, "enough"), "k")
    site.go_on()

    assert site.ended(worker) == 0
    assert site.events()[-1] == TaskCancelled("enough")


def test_a_cancel_during_the_drain_ends_the_task_of_a_step_that_does_not_end(site: Site) -> None:
    """It was told to end: that is no task that is left to its lease."""
    site.create("tool is deaf")
    worker = site.start("--grace", "4")
    site.wait_in_place()

    worker.send_signal(signal.SIGTERM)
    site.wait_for_log("stopping")
    site.store.post("t", ControlReceived(CANCEL, "enough"), "k")

    assert site.ended(worker) == 0
    assert site.events()[-1] == TaskCancelled("enough")


def test_a_message_during_the_drain_is_taken_by_the_next_worker(site: Site) -> None:
    site.create("tool returns")
    worker = site.start()
    site.wait_in_place()

    worker.send_signal(signal.SIGTERM)
    site.wait_for_log("stopping")
    site.store.post("t", HumanResponseReceived(NEXT_GOAL, "and this"), "k")
    site.go_on()
    assert site.ended(worker) == 0
    assert site.store.task("t").status is Status.PENDING
    site.start()
    site.wait_for("the end", lambda: site.store.task("t").status is Status.TERMINAL)

    assert [event.message for event in site.events() if isinstance(event, MessageTaken)] == [
        HumanResponseReceived(NEXT_GOAL, "and this")
    ]
    assert site.events()[-1] == TaskCompleted("done")


@pytest.mark.holds("stopping/lease-alive")
def test_the_lease_is_kept_while_the_step_is_waited_for(site: Site) -> None:
    """A grace of many leases, with another worker waiting for the task."""
    site.create("tool returns")
    worker = site.start("--lease", "1", "--statement-timeout", "0.9", "--grace", "60")
    site.wait_in_place()
    worker.send_signal(signal.SIGTERM)
    site.wait_for_log("stopping")
    at = site.store.task("t").lease_until
    assert at is not None

    def is_renewed_for_three_leases() -> bool:
        assert not site.store.claim("another", None, 1.0).claims, "it was taken from a worker that waits for its step"
        until = site.store.task("t").lease_until
        return until is not None and until - at >= 3_000_000

    site.wait_for("three leases", is_renewed_for_three_leases)
    site.go_on()

    assert site.ended(worker) == 0
    row = site.store.task("t")
    assert (row.status, row.epoch, row.takeovers) == (Status.PENDING, 1, 0)


def test_a_terminal_that_closes_is_as_a_word_to_stop(site: Site) -> None:
    site.create("tool heeds")
    worker = site.start()
    site.wait_in_place()

    worker.send_signal(signal.SIGHUP)

    assert site.ended(worker) == 0
    assert site.store.task("t").status is Status.PENDING
    assert "SIGHUP: stopping" in site.log


def test_under_nohup_it_goes_on_when_the_terminal_closes(site: Site) -> None:
    site.create("tool returns")
    worker = site.start(ignoring=signal.SIGHUP)
    site.wait_in_place()

    worker.send_signal(signal.SIGHUP)
    site.go_on()

    site.wait_for("the end", lambda: site.store.task("t").status is Status.TERMINAL)
    worker.send_signal(signal.SIGTERM)
    assert site.ended(worker) == 0


def test_ctrl_c_twice_ends_it_at_once_and_says_what_is_left(site: Site) -> None:
    site.create("tool is deaf")
    worker = site.start("--grace", "600")
    site.wait_in_place()

    worker.send_signal(signal.SIGINT)
    site.wait_for_log("once more to exit at once")
    while worker.poll() is None:
        worker.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(0.05)

    assert site.ended(worker) == 1
    assert "SIGINT again: exiting at once; tasks are left to their leases" in site.log
    assert site.store.task("t").status is Status.RUNNING


def test_a_thread_of_the_apps_own_keeps_no_worker_from_its_end(site: Site) -> None:
    site.create("tool leaves a thread")
    worker = site.start()
    site.wait_for("the end", lambda: site.store.task("t").status is Status.TERMINAL)

    worker.send_signal(signal.SIGTERM)

    assert site.ended(worker) == 0
    assert "exiting although threads of the app still run" in site.log


def test_a_file_that_is_locked_at_the_start_keeps_no_worker_from_its_end(tmp_path: Path) -> None:
    with contextlib.closing(Site(f"sqlite:{tmp_path / 'tasks.db'}", tmp_path)) as site:
        other = sqlite3.connect(tmp_path / "tasks.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        worker = site.start("--statement-timeout", "0.5")
        site.wait_for_log("cannot be opened yet")

        worker.send_signal(signal.SIGTERM)

        assert site.ended(worker) == 0
        assert "SIGTERM during start-up: nothing was claimed" in site.log
        other.close()


def test_a_database_that_comes_back_within_the_grace_gets_the_task_back(postgres_site: Server, tmp_path: Path) -> None:
    if not postgres_site.owned:
        pytest.skip("needs a server of its own to stop: the one given by DSN is never touched")
    with contextlib.closing(Site(postgres_site.dsn, tmp_path)) as site:
        site.create("tool heeds")
        worker = site.start("--grace", "60", "--lease", "600")
        site.wait_in_place()
        postgres_site.stop("immediate")

        worker.send_signal(signal.SIGTERM)
        site.wait_for_log("failed (failure")
        postgres_site.start()

        assert site.ended(worker) == 0
        assert site.store.task("t").status is Status.PENDING


def test_ctrl_c_while_the_commands_are_imported_prints_no_traceback() -> None:
    program = (
        "import os, signal, sys\n"
        "class Hook:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'noeta.cli':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Hook())\n"
        "from noeta.__main__ import main\n"
        "sys.argv = ['noeta', 'worker', '--help']\n"
        "main()\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_a_signal_while_the_interpreter_ends_changes_no_exit_code() -> None:
    """It takes its handlers down before it is done: a late SIGTERM then killed a worker that had given everything
    back."""
    program = (
        "import os, signal, sys\n"
        "from noeta.commands.shutdown import Shutdown\n"
        "class Late:\n"
        "    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGTERM): kill(pid, number)\n"
        "sys.late = Late()\n"
        "class Service:\n"
        "    def stop(self): pass\n"
        "with Shutdown() as shutdown:\n"
        "    shutdown.runs(Service())\n"
        "    shutdown.ends(0)\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
