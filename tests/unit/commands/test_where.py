"""A store that is not where it was said to be, and values out of their bounds: the same words and codes by every
command."""

from __future__ import annotations

from pathlib import Path

import pytest

from noeta.cli import BAD_USAGE
from noeta.commands.tasks.place import UNREACHABLE
from tests.unit.commands.shell import Said, Shell

NOBODY = "postgresql://nobody:secret@127.0.0.1:1/none?connect_timeout=2"
APP = "tests.unit.commands.test_where:no_app"
WAYS = {
    "tasks": ["tasks", "list"],
    "task": ["task", "t"],
    "migrate": ["migrate"],
    "worker": ["worker", "--app", APP],
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> list[str]:
    words: list[str] = WAYS[request.param]
    return words


def refused(said: Said) -> str:
    assert said.code == BAD_USAGE, said
    return said.refusal


def test_a_folder_that_is_not_there(shell: Shell, tmp_path: Path, way: list[str]) -> None:
    said = shell.run(*way, "--store", f"sqlite:{tmp_path / 'none' / 't.db'}")

    assert f'--store: there is no folder "{tmp_path / "none"}"' in refused(said)


@pytest.mark.parametrize(
    ("store", "found"),
    [
        ("/tmp/x.db", "found '/tmp/x.db'; a file is named so: sqlite:/tmp/x.db"),
        ("foo", "found 'foo'; a file is named so: sqlite:foo"),
        ("file:x.db", "found 'file:x.db'; a file is named so: sqlite:/path/tasks.db"),
        ("me:secret@host/db", "found something else"),
        ("mysql://me:secret@host/db", "found mysql://…"),
    ],
)
def test_what_names_no_store_is_repeated_unless_it_may_hold_a_password(
    shell: Shell, way: list[str], store: str, found: str
) -> None:
    if way[0] == "worker":
        way = ["worker", "--app", "tests.cluster.plain_app:make"]
    refusal = refused(shell.run(*way, "--store", store))

    assert refusal.startswith("noeta: --store: expected postgresql://…") and refusal.endswith(found)
    assert "secret" not in refusal


def test_a_server_that_does_not_answer(shell: Shell) -> None:
    for way in (WAYS["tasks"], WAYS["task"], WAYS["migrate"]):
        said = shell.run(*way, "--store", NOBODY)

        assert said.code == UNREACHABLE, said
        assert said.refusal.startswith("noeta: the store cannot be asked, nothing was written")
        assert "secret" not in said.refusal


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["--lease", "-1"], "--lease: above 0 and at most 604800 seconds, found -1.0"),
        (["--statement-timeout", "-1"], "--statement-timeout: above 0 and at most 604800 seconds, found -1.0"),
        (["--statement-timeout", "99"], "--statement-timeout: must be below the lease"),
        (["--poll", "-1"], "--poll: above 0"),
        (["--grace", "-1"], "--grace: above 0"),
        (["--concurrency", "0"], "--concurrency: from 1 to"),
        (["--name", ""], "--name: must not be empty"),
        (["--app", "nowhere"], "--app: expected MODULE:FACTORY, found 'nowhere'"),
    ],
)
def test_a_value_of_a_worker_is_named_by_its_option(
    shell: Shell, tmp_path: Path, arguments: list[str], refusal: str
) -> None:
    said = shell.run("worker", "--store", shell.store, "--app", APP, *arguments)

    assert refused(said).startswith(f"noeta: {refusal}")
    assert list(tmp_path.iterdir()) == [], "no file was made for it"


@pytest.mark.parametrize("arguments", [["tasks", "list", "--limit", "0"], ["task", "t", "--width", "10"]])
def test_a_number_out_of_its_range_is_repeated(shell: Shell, arguments: list[str]) -> None:
    said = shell.run(*arguments, "--store", shell.store)

    assert refused(said).startswith(f"noeta: {arguments[-2]}: ") and said.refusal.endswith(f"found {arguments[-1]}")
