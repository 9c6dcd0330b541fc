"""What a person is told to run next can be pasted as it is; what no retry mends says what to do instead."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from noeta.cli import BAD_USAGE
from noeta.commands.tasks.hints import At, word
from noeta.commands.tasks.place import UNREACHABLE
from noeta.core.errors import StoreUnavailable
from noeta.core.store import Store
from tests.actors import Model, engine, says
from tests.unit.commands.shell import Shell
from tests.unit.runtime.machines import asks_event, calls, main_agent

ODD = ["-dash", "two words", "it's", "$(date);*", "line\nbreak", "\x1b[2J", "q\x9b\\'é\u202e", "--"]


@pytest.fixture
def elsewhere(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """The environment names no store."""
    monkeypatch.delenv("NOETA_STORE")
    return shell


def pasted(shell: Shell, line: str, **blanks: str) -> list[str]:
    """The lines that the command in this hint prints; words in capitals are filled in."""
    _, _, command = line.partition(": noeta ")
    assert command, line
    words = [blanks.get(one, one) for one in _split(command)]
    said = shell.run(*words)
    assert (said.code, said.err) == (0, ""), said
    return said.lines


def _split(command: str) -> list[str]:
    """As bash does."""
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("id", ODD)
def test_every_hint_can_be_pasted(elsewhere: Shell, id: str) -> None:
    shell = elsewhere
    both = calls(("AskUser", {"question": "This?"}), ("AskUser", {"question": "Or that?"}))
    agent = main_agent(both, asks_event("-kind of\nevent"))
    created = shell.done("create", "--agent", "main", "--goal", "x", "--interactive", "--", id)
    shell.work(main=agent)

    shown = pasted(shell, created[-1])
    answered = pasted(shell, shown[-1], TEXT="yes")
    assert answered[0].endswith("has the answer as item 1: it may go on now")
    shell.work(main=agent)
    pasted(shell, pasted(shell, answered[1])[-1], TEXT="yes, too")
    shell.work(main=agent)
    brought = pasted(shell, pasted(shell, created[-1])[-1], JSON="1")
    shell.work(main=agent)
    said = pasted(shell, pasted(shell, brought[1])[-1], TEXT="well")
    assert said[0].endswith("has the message as item 4: it may go on now")


@pytest.mark.parametrize("given", ODD)
def test_a_word_stays_one_word_on_one_line_without_what_a_terminal_obeys(given: str) -> None:
    assert word(given).isprintable()
    assert _split(word(given)) == [given]


def test_a_page_that_ends_at_an_odd_id_says_how_to_go_on(elsewhere: Shell) -> None:
    for id in ("-b c", "-d"):
        elsewhere.done("create", "--agent", "main", "--goal", "x", "--", id)
    last = elsewhere.done("list", "--limit", "1")[-1]
    option = _split(last.partition("; there are more: add ")[2])

    assert [one["id"] for one in elsewhere.json("list", *option)["tasks"]] == ["-d"]


def test_refusals_name_the_store_too(elsewhere: Shell) -> None:
    store = f"--store {shlex.quote(elsewhere.store)}"
    elsewhere.create("t", "main", "--interactive")
    elsewhere.work(main=engine(Model((says("hello"),))))

    assert elsewhere.tasks("show", "u").refusal.endswith(f"those there are: noeta tasks list {store}")
    assert elsewhere.tasks("answer", "t", "x").refusal.endswith(f"noeta tasks say {store} t TEXT")


@pytest.mark.parametrize(
    ("address", "schema", "hint"),
    [
        ("postgresql://ada@db:5432/x", "noeta", "look: noeta tasks show --store postgresql://ada@db:5432/x t"),
        ("host=db dbname=x", "mine", "look: noeta tasks show --store 'host=db dbname=x' --schema mine t"),
        ("postgresql://ada:s3cret@db/x", "mine", "look, with the same --store: noeta tasks show --schema mine t"),
        ("postgresql://db/x?user=ada&password=s3cret", "noeta", "look, with the same --store: noeta tasks show t"),
        ("host=db password = s3cret", "noeta", "look, with the same --store: noeta tasks show t"),
        ("sqlite:password: a@b.db", "noeta", "look: noeta tasks show --store 'sqlite:password: a@b.db' t"),
    ],
)
def test_a_password_is_not_repeated(address: str, schema: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOETA_STORE", raising=False)
    assert At(address, schema).hint("look", "show", "t") == hint
    monkeypatch.setenv("NOETA_STORE", address)
    assert "--store" not in At(address, schema).hint("look", "show", "t"), "the shell knows it"


@pytest.mark.parametrize("command", [["list"], ["create", "t", "--agent", "main", "--goal", "x"]])
@pytest.mark.parametrize(
    ("place", "refusal"),
    [
        ("folder", 'folder" is a folder; name a file'),
        ("text", "file is not a database [SQLITE_NOTADB]; name another file"),
        ("none/tasks.db", 'none"; make it, or name another file'),
        ("x" * 300, "cannot be looked at: File name too long"),
    ],
)
def test_what_can_be_no_store_is_bad_usage(
    command: list[str], place: str, refusal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("no database\n")
    said = Shell(f"sqlite:{tmp_path / place}", capsys).tasks(*command)

    assert said.code == BAD_USAGE
    assert said.refusal.startswith("noeta: --store: ")
    assert said.refusal.endswith(refusal)
    assert "try again" not in said.refusal


def test_a_schema_that_must_be_migrated_is_not_tried_again(
    pg_schema: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    dsn, schema = pg_schema
    said = Shell(dsn, capsys, schema).tasks("list")

    assert said.code == UNREACHABLE
    assert "try again" not in said.refusal


def locked(place: str) -> Store:
    raise StoreUnavailable(f"{place}: nothing was written: database is locked")


def test_nothing_was_written_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    said = Shell("factory:tests.unit.commands.test_tasks_hints:locked:x.db", capsys).tasks("say", "t", "hi")

    assert said.code == UNREACHABLE
    assert said.refusal == (
        "noeta: the store cannot be asked; try again: x.db: nothing was written: database is locked"
    )


def test_only_a_file_that_was_not_there_is_said_to_be_made(shell: Shell) -> None:
    new = [shell.done("create", id, "--agent", "main", "--goal", "x")[0].startswith("made ") for id in ("t", "u")]

    assert new == [True, False]


@pytest.mark.parametrize("option", ["--status", "--waiting"])
def test_a_wrong_word_is_told_the_right_ones(shell: Shell, option: str) -> None:
    said = shell.tasks("list", option, "foo")

    assert said.code == BAD_USAGE
    assert "Value error" not in said.err
    assert f"Invalid value for '{option}': expected one of " in said.err
    assert "found 'foo'" in said.err
