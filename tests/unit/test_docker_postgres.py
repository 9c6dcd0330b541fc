"""A Docker engine as the last source of a Postgres: asked last, refused by name, and nothing left behind.

What is sent is read off a stand-in for the engine, a socket that speaks as much HTTP as testcontainers asks for.
The last group needs a real engine with a Postgres image and is skipped, by name, where there is none; with
NOETA_POSTGRES=docker it must run.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from noeta.chaos.doctor import State
from noeta.chaos.doctor import postgres as doctor
from noeta.testing.postgres import NoPostgres, PostgresSource, Server, ServerFailed, find_source, guard
from noeta.testing.postgres import source as sources
from noeta.testing.postgres.container import Container
from noeta.testing.postgres.container_guard import (
    OWNER_LABEL,
    fresh_label,
    has_dead_owner,
    remove_containers,
    sweep_containers,
)
from noeta.testing.postgres.engine import asked_engine

CLEANED_SECONDS_MAX = 30.0
ID = "c0ffee" * 10

OWN_A_CONTAINER = """
import os, time
from noeta.testing.postgres import Server, find_source
server = Server(find_source({**os.environ, "NOETA_POSTGRES": "docker"}))
server.start()
print(server._container._label, server._container._guard.pid, flush=True)
time.sleep(600)
"""


class StandIn(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers as an engine would; `seen` holds what it was asked, `answers` what it says instead of ok."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Asked)
        self.address = f"unix://{path}"
        self.seen: list[tuple[str, str, Any]] = []
        self.answers: dict[str, tuple[int, object]] = {}

    def asked(self, method: str, ending: str) -> list[Any]:
        return [body for verb, path, body in self.seen if verb == method and re.search(ending, path)]


class Asked(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        assert isinstance(self.server, StandIn)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        self.server.seen.append((self.command, path, json.loads(body) if body else None))
        code, said = 200, self.usual(path)
        for ending, instead in self.server.answers.items():
            if re.search(ending, f"{self.command} {path}"):
                code, said = instead
        told = json.dumps(said).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    do_GET = do_POST = do_DELETE = answer  # noqa: N815  the library looks for these names

    def usual(self, path: str) -> object:
        if path.endswith("/version"):
            return {"ApiVersion": "1.44"}
        if path.endswith("/containers/json"):
            return self.listed()
        if "/images/" in path:
            return {"Id": "sha256:1", "Config": {"Env": ["PG_VERSION=17.2-1.pgdg", "PG_MAJOR=17"]}}
        if path.endswith("/containers/create"):
            return {"Id": ID}
        if path.endswith("/json"):
            return {"Id": ID, "State": {"Status": "exited"}, "Config": {"Tty": True}, "HostConfig": {}}
        return {}

    def listed(self) -> list[object]:
        """Of one label: what was made and not yet removed; of all: somebody else's."""
        assert isinstance(self.server, StandIn)
        if f"{OWNER_LABEL}%3D" not in self.path:
            return [{"Id": ID, "Labels": {OWNER_LABEL: "of somebody else"}}]
        made = self.server.asked("POST", "/containers/create$")
        return [{"Id": ID}] if len(made) > len(self.server.asked("DELETE", f"/containers/{ID}$")) else []

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:
        """Not to the terminal."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, as the path of a socket must be."""
    made = Path(tempfile.mkdtemp(prefix="noeta-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with StandIn(folder / "engine") as server:
        monkeypatch.setenv("DOCKER_HOST", server.address)
        monkeypatch.setenv("TESTCONTAINERS_RYUK_DISABLED", "false")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without binaries and without the wheel."""
    monkeypatch.setattr(sources, "_first_system", lambda environ: None)
    monkeypatch.setattr(sources, "_embedded", lambda: None)


# Choosing.


def test_engine_is_taken_where_there_is_nothing_else(engine: StandIn, nothing_else: None) -> None:
    found = find_source({})

    assert str(found) == "PostgreSQL 17.2 (docker: postgres:17)"
    assert not engine.asked("POST", "")


def test_engine_is_not_asked_where_there_are_binaries(engine: StandIn, postgres_source: PostgresSource) -> None:
    if postgres_source.bin_dir is None:
        pytest.skip("a server was given by address; binaries are not looked for")
    assert find_source({"PATH": os.environ["PATH"]}).kind in ("system", "embedded")
    assert engine.seen == []


def test_forced_engine_is_asked_although_there_are_binaries(engine: StandIn) -> None:
    found = find_source({"NOETA_POSTGRES": "docker", "NOETA_POSTGRES_IMAGE": "house/postgres:16.3-alpine"})

    assert (found.kind, found.image) == ("docker", "house/postgres:16.3-alpine")
    assert engine.asked("GET", r"/images/house/postgres:16.3-alpine/json$")


def test_version_of_an_image_not_yet_fetched_is_its_tag(engine: StandIn) -> None:
    engine.answers["GET .*/images/"] = (404, {"message": "no such image"})

    assert find_source({"NOETA_POSTGRES": "docker"}).version == "17"
    assert not engine.asked("POST", "/images/create")


@pytest.mark.parametrize(("code", "state"), [(200, State.OK), (404, State.LIMITED)])
def test_doctor_says_whether_the_image_must_be_fetched_first(
    engine: StandIn, nothing_else: None, code: int, state: State
) -> None:
    engine.answers["GET .*/images/"] = (code, {"message": "no such image", "Config": {"Env": ["PG_MAJOR=17"]}})
    (image,) = [one for one in doctor.postgres({}) if one.name == "Postgres image"]

    assert (image.state, "postgres:17" in image.found) == (state, True)
    assert state is State.OK or image.help == "docker pull postgres:17"


def test_no_engine_is_refused_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/nobody")
    with pytest.raises(NoPostgres, match=f"no Docker engine answers at unix://{folder}/nobody") as caught:
        find_source({"NOETA_POSTGRES": "docker"})

    assert str(caught.value).startswith("NOETA_POSTGRES=docker, but ")
    assert "\n" not in str(caught.value)


def test_nothing_at_all_says_what_would_help(folder: Path, nothing_else: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/nobody")
    with pytest.raises(NoPostgres, match=r"set NOETA_TEST_POSTGRES_DSN, .*no Docker engine answers at"):
        find_source({})


@pytest.mark.slow
def test_engine_that_says_nothing_is_given_up_in_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socketserver.UnixStreamServer(f"{folder}/mute", socketserver.BaseRequestHandler, bind_and_activate=True):
        monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/mute")
        began = time.monotonic()
        with pytest.raises(NoPostgres, match="no Docker engine answers"):
            find_source({"NOETA_POSTGRES": "docker"})

    assert time.monotonic() - began < 10


# What testcontainers is asked for.


def test_what_is_sent_names_owner_settings_and_a_password(engine: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testcontainers.core.config.testcontainers_config.tc_host_override", "127.0.0.1")
    with pytest.raises(ServerFailed, match="postgres:17 ended at its start"):
        Container("postgres:17", {"work_mem": "7MB"}, {"TZ": "UTC"}).start(5)

    (sent,) = engine.asked("POST", "/containers/create$")
    variables = dict(one.split("=", 1) for one in sent["Env"])
    assert sent["Image"] == "postgres:17"
    assert sent["Cmd"] == ["postgres", "-c", "work_mem=7MB"]
    assert (variables["POSTGRES_USER"], variables["POSTGRES_DB"], variables["TZ"]) == ("noeta", "postgres", "UTC")
    assert len(variables["POSTGRES_PASSWORD"]) == 24
    assert sent["Labels"][OWNER_LABEL].split("/")[1] == str(os.getpid())
    if _is_docker_host():
        assert sent["HostConfig"]["PortBindings"] == {"5432/tcp": [{"HostPort": "", "HostIp": "127.0.0.1"}]}


def _is_docker_host() -> bool:
    from testcontainers.core.container import DockerContainer

    container = DockerContainer("x")
    mode = container.get_docker_client().get_connection_mode()
    container.get_docker_client().client.close()
    return mode.value == "docker_host"


def test_testcontainers_own_reaper_is_not_started_and_its_setting_is_put_back(engine: StandIn) -> None:
    from testcontainers.core.config import testcontainers_config

    testcontainers_config.ryuk_disabled = False
    with pytest.raises(ServerFailed):
        Container("postgres:17", {}, {}).start(5)

    assert len(engine.asked("POST", "/containers/create$")) == 1
    assert testcontainers_config.ryuk_disabled is False


def test_container_that_does_not_start_is_removed(engine: StandIn) -> None:
    engine.answers["POST .*/start$"] = (500, {"message": "no space left on device"})
    with pytest.raises(ServerFailed, match="no space left"):
        Container("postgres:17", {}, {}).start(5)

    assert engine.asked("DELETE", f"/containers/{ID}$")


def test_image_that_cannot_be_had_is_no_postgres(engine: StandIn) -> None:
    engine.answers["GET .*/images/"] = (404, {"message": "no such image"})
    engine.answers["POST .*/images/create"] = (500, {"message": "registry does not answer"})
    with pytest.raises(NoPostgres, match=r"has no postgres:17: .*registry does not answer"):
        Container("postgres:17", {}, {}).start(5)


def test_engine_gone_between_choice_and_start_is_no_postgres(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/nobody")
    chosen = PostgresSource(kind="docker", version="17", image="postgres:17")
    with pytest.raises(NoPostgres, match="no Docker engine answers"), Server(chosen):
        pass


# Whose a container is.


def test_owner_that_lives_or_is_elsewhere_is_not_dead() -> None:
    boot, me, start, suffix = fresh_label().split("/")

    assert not has_dead_owner(f"{boot}/{me}/{start}/{suffix}")
    assert has_dead_owner(f"{boot}/{me}/1/{suffix}")
    assert not has_dead_owner(f"another {boot}/{me}/1/{suffix}")
    assert not has_dead_owner("of somebody else")


def test_sweep_removes_nothing_of_somebody_else(engine: StandIn) -> None:
    assert sweep_containers() == 0
    assert not engine.asked("DELETE", "")


# With a real engine.


@pytest.fixture(scope="module")
def real() -> Iterator[PostgresSource]:
    must = os.environ.get("NOETA_POSTGRES") == "docker"
    try:
        found = find_source({**os.environ, "NOETA_POSTGRES": "docker"})
        with Server(found):
            pass
    except NoPostgres as reason:
        if must:
            raise
        pytest.skip(str(reason))
    yield found
    sweep_containers()


def containers(label: str = "") -> list[str]:
    with asked_engine() as client:
        wanted = f"{OWNER_LABEL}={label}" if label else OWNER_LABEL
        return [str(one["Id"]) for one in client.api.containers(all=True, filters={"label": wanted})]


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + CLEANED_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, f"not within {CLEANED_SECONDS_MAX} s: {what}"
        time.sleep(0.05)


def test_server_in_a_container_takes_connections_and_options(real: PostgresSource) -> None:
    before = containers()
    with Server(real, options={"work_mem": "7MB"}) as server:
        with psycopg.connect(server.dsn) as connection:
            row = connection.execute("SELECT current_setting('work_mem'), current_setting('fsync')").fetchone()
        assert len(containers()) == len(before) + 1
        assert not server.owned

    assert row == ("7MB", "on")
    assert containers() == before


def test_container_whose_server_ends_at_once_is_told_and_removed(real: PostgresSource) -> None:
    before = containers()
    with pytest.raises(ServerFailed, match="nonsense"), Server(real, options={"work_mem": "nonsense"}):
        pass

    assert containers() == before


class Owner:
    """Another process that has a container; its label and its guard."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWN_A_CONTAINER], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        assert self.process.stdout is not None
        self.label, guard_pid = self.process.stdout.readline().split()
        self.guard = int(guard_pid)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def test_killed_owner_leaves_no_container(real: PostgresSource) -> None:
    owner = Owner()
    assert len(containers(owner.label)) == 1

    owner.kill()

    wait_until(lambda: not containers(owner.label), "container removed")
    wait_until(lambda: guard.started_at(owner.guard) is None, "the guard has gone too")


def test_what_a_killed_guard_leaves_is_swept_and_the_living_is_not(real: PostgresSource) -> None:
    dead, living = Owner(), Owner()
    try:
        os.kill(dead.guard, signal.SIGKILL)
        dead.kill()
        assert containers(dead.label)

        sweep_containers()

        wait_until(lambda: not containers(dead.label), "container swept")
        assert containers(living.label)
    finally:
        living.kill()
        wait_until(lambda: not containers(living.label), "the other one is removed too")
        remove_containers(dead.label)
