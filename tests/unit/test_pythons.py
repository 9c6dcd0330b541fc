"""The check of every Python fails when one of them fails, and says which ones it did not find.

A stand-in plays the interpreters, so that nothing is downloaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "cat", "cp", "cut", "date", "dirname", "mkdir", "mktemp", "rm", "sed", "tail", "timeout")

# Knows `-c`, `-m venv`, `-m pip` and `-m pytest`; an environment of it has a `noeta` that prints a trace.
PYTHON = """#!/bin/sh
case "$1 ${2:-}" in
    "-m venv")
        mkdir -p "$3/bin"
        cp "$0" "$3/bin/python"
        printf '#!/bin/sh\\necho "valid: 50 of 50 seeds; traces TRACE"\\n' > "$3/bin/noeta"
        chmod +x "$3/bin/noeta" ;;
    "-m pip") exit PIP ;;
    "-m pytest") echo "12 tests of VERSION"; exit PYTEST ;;
    "-c "*) echo VERSION ;;
esac
"""


class Checkout:
    """The script alone, and a PATH with nothing but what it needs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin, self.temp = folder / "checkout", folder / "bin", folder / "temp"
        for made in (self.folder / "ci", self.bin, self.temp):
            made.mkdir(parents=True)
        shutil.copy(ROOT / "ci/pythons.sh", self.folder / "ci/pythons.sh")
        for tool in (*TOOLS, "chmod"):
            found = shutil.which(tool)
            assert found is not None, f"{tool} is not on this machine"
            (self.bin / tool).symlink_to(found)

    def give_python(
        self, version: str, *, trace: str = "abc", pytest_code: int = 0, pip_code: int = 0, name: str = ""
    ) -> Path:
        path = self.bin / (name or f"python{version.rpartition('.')[0]}")
        text = PYTHON.replace("VERSION", version).replace("TRACE", trace)
        path.write_text(text.replace("PYTEST", str(pytest_code)).replace("PIP", str(pip_code)))
        path.chmod(0o755)
        return path

    def run(self, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["sh", "ci/pythons.sh", *command],
            cwd=self.folder,
            env={"PATH": str(self.bin), "TMPDIR": str(self.temp), **environ},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not list(self.temp.iterdir()), "it left something behind"
        return done


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_every_version_found_is_tried_and_the_others_are_named(checkout: Checkout) -> None:
    checkout.give_python("3.11.7")
    checkout.give_python("3.13.0")
    done = checkout.run()

    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert len(lines) == 4
    assert lines[0].startswith("pythons: 3.11.7: passed in ")
    assert lines[0].endswith("12 tests of 3.11.7, traces abc")
    assert lines[1] == "pythons: python3.12: not tried: no such interpreter is found that runs"
    assert lines[2].startswith("pythons: 3.13.0: passed in ")
    assert lines[3] == "pythons: 2 passed, 0 failed"


def test_one_version_that_fails_fails_the_whole_and_the_rest_is_still_tried(checkout: Checkout) -> None:
    checkout.give_python("3.11.7")
    checkout.give_python("3.12.1", pytest_code=1)
    checkout.give_python("3.13.0")
    done = checkout.run()

    assert done.returncode == 1
    assert "pythons: 3.12.1: FAILED after" in done.stdout
    assert "12 tests of 3.12.1" in done.stderr
    assert done.stdout.endswith("pythons: 2 passed, 1 failed\n")


def test_other_trace_of_one_version_fails(checkout: Checkout) -> None:
    checkout.give_python("3.11.7", trace="abc")
    checkout.give_python("3.12.1", trace="abd")
    done = checkout.run()

    assert done.returncode == 1
    assert "simulated traces differ: hash seed 0 gives abd, the first version gave abc" in done.stderr


def test_environment_that_cannot_be_made_fails(checkout: Checkout) -> None:
    checkout.give_python("3.11.7", pip_code=1)
    done = checkout.run()

    assert done.returncode == 1
    assert "3.11.7: FAILED: its environment could not be made" in done.stdout


def test_name_that_does_not_run_is_passed_over_unless_it_was_asked_for(checkout: Checkout) -> None:
    """A shim for a version that is not installed is on PATH and fails."""
    shim = checkout.bin / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    good = checkout.give_python("3.11.7")

    assert checkout.run().returncode == 0
    done = checkout.run(NOETA_PYTHONS=f"{good}:{shim}")
    assert done.returncode == 1
    assert f"{shim}: FAILED: asked for by NOETA_PYTHONS, but it does not run" in done.stdout


def test_no_python_at_all_is_a_failure(checkout: Checkout) -> None:
    assert checkout.run().returncode == 77


def test_given_command_runs_with_each_python_and_its_failure_counts(checkout: Checkout) -> None:
    paths = [checkout.give_python(version, name=f"own-{version}") for version in ("3.11.7", "3.12.1")]
    pythons = ":".join(map(str, paths))
    done = checkout.run("python", "-c", "", NOETA_PYTHONS=pythons)

    assert done.returncode == 0, done.stderr
    assert [line.rpartition(": ")[2] for line in done.stdout.splitlines()[:2]] == ["3.11.7", "3.12.1"]
    assert checkout.run("sh", "-c", "exit 3", NOETA_PYTHONS=pythons).returncode == 1


def test_script_is_executable() -> None:
    assert os.access(ROOT / "ci/pythons.sh", os.X_OK)
