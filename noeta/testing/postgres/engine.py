"""Asks a Docker engine, if there is one: does it answer, and which image would a Postgres come from.

The engine is the one that the `docker` command would use: DOCKER_HOST, the current context, the local socket.
The library is the extra `docker` (`testcontainers` 4.15 or newer, which moved its Postgres to
`testcontainers.community`); it is imported only when somebody asks. Nothing is started or fetched here.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from docker import DockerClient

IMAGE_VARIABLE: Final = "NOETA_POSTGRES_IMAGE"
DEFAULT_IMAGE: Final = "postgres:17"
LOCAL_ADDRESS: Final = "unix:///var/run/docker.sock"
ASK_SECONDS_MAX: Final = 5
"""For one answer of an engine that we only ask; an image that must be fetched first has no such bound."""


class NoEngine(RuntimeError):
    """No library, no engine that answers, or no such image; the message is one line."""


def image_name(environ: Mapping[str, str]) -> str:
    return environ.get(IMAGE_VARIABLE) or DEFAULT_IMAGE


def find_image(environ: Mapping[str, str]) -> str:
    """The version of Postgres in the image, once the engine has answered.

    An image the engine does not have yet is named by its tag: fetching it is for whoever starts it.

    Raises:
        NoEngine: there is no library, or no engine answers.
    """
    name = image_name(environ)
    told = dict(one.partition("=")[::2] for one in _variables(name) or [])
    version = told.get("PG_VERSION") or told.get("PG_MAJOR") or name.rpartition(":")[2]
    found = re.match(r"\d+(?:\.\d+)?", version)
    return found.group() if found else "of unknown version"


def has_image(environ: Mapping[str, str]) -> bool:
    """Whether the engine has the image already.

    Raises:
        NoEngine: there is no library, or no engine answers.
    """
    return _variables(image_name(environ)) is not None


def _variables(image: str) -> list[str] | None:
    """The environment that an image sets; None: the engine does not have it."""
    with asked_engine() as client:
        from docker.errors import ImageNotFound

        try:
            return client.images.get(image).attrs["Config"]["Env"] or []
        except ImageNotFound:
            return None


def engine_address() -> str:
    """Where the engine is asked."""
    _need_library()
    from testcontainers.core.docker_client import get_docker_host

    return get_docker_host() or LOCAL_ADDRESS


@contextmanager
def asked_engine(seconds: int = ASK_SECONDS_MAX) -> Iterator[DockerClient]:
    """A client of the engine, which has answered once.

    Raises:
        NoEngine: it did not answer, or stopped answering.
    """
    address = engine_address()
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        _knock(address, seconds)
        client = _client(seconds)
    except (DockerException, RequestException, OSError, ValueError) as error:
        raise NoEngine(f"no Docker engine answers at {address}: {one_line(error)}") from None
    try:
        yield client
    except (DockerException, RequestException, OSError) as error:
        raise NoEngine(f"the Docker engine at {address} does not do it: {one_line(error)}") from error
    finally:
        client.close()


def _knock(address: str, seconds: int) -> None:
    """Ask a local socket ourselves: where nobody answers, the library fails with its own socket left open."""
    scheme, _, path = address.partition("://")
    if scheme != "unix":
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.settimeout(seconds)
        door.connect(path)
        door.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        if not door.recv(1):
            raise ConnectionError("it closed the connection without a word")


def _client(seconds: int) -> DockerClient:
    """Through testcontainers, so that contexts and ssh are read as they will be when a container is started."""
    from testcontainers.core.docker_client import DockerClient as Resolved

    return Resolved(timeout=seconds).client


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _need_library() -> None:
    if find_spec("testcontainers") is None:
        raise NoEngine("testcontainers is not installed: pip install 'noeta[docker]'")
    if find_spec("testcontainers.community") is None:
        raise NoEngine("testcontainers is older than 4.15: pip install --upgrade 'noeta[docker]'")
