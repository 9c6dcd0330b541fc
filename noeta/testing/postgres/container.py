"""Runs a Postgres in a container of a Docker engine, and removes it whatever becomes of us.

The image is the official one, or one that understands its variables (POSTGRES_USER, POSTGRES_PASSWORD,
POSTGRES_DB) and its command line. A container is there to be connected to: its server is neither stopped nor
killed by faults, because no signal of ours reaches its processes and its port changes with a restart.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg.conninfo import make_conninfo

from noeta.testing.postgres.container_guard import OWNER_LABEL, fresh_label, remove_containers, sweep_containers
from noeta.testing.postgres.engine import NoEngine, engine_address, one_line
from noeta.testing.postgres.source import NoPostgres, ServerFailed

if TYPE_CHECKING:
    from testcontainers.community.postgres import PostgresContainer

USER: Final = "noeta"
DATABASE: Final = "postgres"
PORT: Final = 5432  # inside the container
READY_LOOK_SECONDS: Final = 0.1
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1"})
GUARD_CODE: Final = "from noeta.testing.postgres.container_guard import main; main()"


class Container:
    """One container with one server. `dsn` holds the password: never write it down."""

    def __init__(self, image: str, options: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self.dsn = ""
        self._image = image
        self._label = fresh_label()
        self._container: PostgresContainer | None = None
        self._options, self._environ = options, environ
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self, timeout_seconds: float) -> None:
        """Create and start it, guard first, and wait until its server takes our connections.

        Raises:
            NoPostgres: no engine answers, or it cannot have the image.
            ServerFailed: the server ended or was not ready in time; the message ends with its log.
        """
        try:
            sweep_containers()
            self._guard = subprocess.Popen(
                [sys.executable, "-P", "-c", GUARD_CODE, str(os.getpid()), self._label],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
            self._container = self._launched()
            self.dsn = self._wait_ready(self._container, time.monotonic() + timeout_seconds)
        except NoEngine as error:
            self.close()
            raise NoPostgres(str(error)) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the container; what cannot be removed now is left to the guard.

        Raises:
            ServerFailed: the engine did not answer, so that the container may still run.
        """
        if self._guard is None:
            return
        guard, self._guard = self._guard, None
        self.dsn = ""
        if self._container is not None:
            self._container.get_docker_client().client.close()
            self._container = None
        assert guard.stdin is not None
        try:
            remove_containers(self._label)
        except NoEngine as error:
            guard.stdin.close()  # it tries for a while longer
            raise ServerFailed(f"the container of {self._image} may still run: {error}") from None
        guard.kill()
        guard.wait()
        guard.stdin.close()

    def _launched(self) -> PostgresContainer:
        from docker.errors import APIError, DockerException, ImageNotFound
        from requests.exceptions import RequestException

        container = postgres_container(self._image, self._label, self._options, self._environ)
        try:
            with _without_reaper():
                return container.start()
        except (ImageNotFound, APIError) as error:
            if container._container is None:  # the image could not be had, or no container be made of it
                raise NoPostgres(f"the engine at {engine_address()} has no {self._image}: {one_line(error)}") from None
            raise ServerFailed(f"the container of {self._image} did not start: {one_line(error)}") from None
        except (DockerException, RequestException) as error:
            raise NoEngine(f"the Docker engine at {engine_address()} stopped answering: {one_line(error)}") from None
        finally:
            container.get_docker_client().client.close()

    def _wait_ready(self, container: PostgresContainer, deadline: float) -> str:
        """The DSN, once a connection over it has been made."""
        inner = container.get_wrapped_container()
        reason = "never reached"
        while time.monotonic() < deadline:
            inner.reload()
            if inner.status not in ("created", "running"):
                raise ServerFailed(f"{self._image} ended at its start: {_log_tail(container)}")
            try:
                dsn = _dsn_of(container)
                with psycopg.connect(dsn, connect_timeout=2):
                    return dsn
            except (psycopg.OperationalError, ConnectionError, StopIteration) as error:  # the last: it ended just now
                reason = one_line(error)
            time.sleep(READY_LOOK_SECONDS)
        raise ServerFailed(f"{self._image} took no connection in time ({reason}): {_log_tail(container)}")


def postgres_container(
    image: str, label: str, options: Mapping[str, str], environ: Mapping[str, str]
) -> PostgresContainer:
    """What is asked of testcontainers; nothing is started.

    Raises:
        NoEngine: no engine answers.
    """
    address = engine_address()
    from docker.errors import DockerException
    from testcontainers.community.postgres import PostgresContainer

    class Launched(PostgresContainer):
        def _connect(self) -> None:
            """We wait ourselves: from where we are, and no longer than the container runs."""

    try:
        container = Launched(
            image,
            username=USER,
            password=secrets.token_urlsafe(18),
            dbname=DATABASE,
            driver=None,
            labels={OWNER_LABEL: label},
        )
    except DockerException as error:
        raise NoEngine(f"no Docker engine answers at {address}: {one_line(error)}") from None
    container.with_envs(**environ)
    command = ["postgres"]
    for name, value in options.items():
        command += ["-c", f"{name}={value}"]
    container.with_command(command)
    if _is_here(container):
        # Not for the whole network, which is the default. The engine's library takes such a pair.
        container.ports[str(PORT)] = ("127.0.0.1", None)  # type: ignore[assignment]
    return container


def _is_here(container: PostgresContainer) -> bool:
    """Whether the engine's published ports are on our own loopback."""
    from testcontainers.core.config import ConnectionMode

    client = container.get_docker_client()
    return client.get_connection_mode() is ConnectionMode.docker_host and client.host() in LOOPBACK


def _dsn_of(container: PostgresContainer) -> str:
    host = container.get_container_host_ip()
    return make_conninfo(
        host="127.0.0.1" if host in LOOPBACK else host,
        port=container.get_exposed_port(PORT),
        user=container.username,
        password=container.password,
        dbname=container.dbname,
        sslmode="disable",
        gssencmode="disable",
    )


def _log_tail(container: PostgresContainer) -> str:
    out, err = container.get_logs()
    return (out + err).decode(errors="replace")[-2000:].strip() or "(no log)"


@contextmanager
def _without_reaper() -> Iterator[None]:
    """Testcontainers starts its reaper, a second image, before the first container, unless its settings forbid it."""
    from testcontainers.core.config import testcontainers_config as settings

    was = settings.ryuk_disabled
    settings.ryuk_disabled = True
    try:
        yield
    finally:
        settings.ryuk_disabled = was
