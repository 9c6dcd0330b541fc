"""The guide to crash tests is followed as it is printed: its files are written, its commands run, its output compared.

What the page shows is real output: only what no two runs share (how long it took) is compared by shape. The commands
that install noeta are left out, the interpreter of this test has it. ``python -m tests.sim.test_crash_guide`` writes
what is printed today into the page, for a person to review.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guide/regression-test-recovery.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_LINE = re.compile(r"# ([\w./-]+\.\w+)\n")
INSTALLS = ("python3 -m venv ", ". .venv/", "pip install ")
COMMAND_SECONDS_MAX = 120
PLUGIN = "noeta.testing.crash_plugin"


def follow(page: str, directory: Path) -> str:
    """Do in this directory what the page says, in its order; the page as it should have been.

    A block that begins with the name of a file is written, instead of one of the same name before it; the lines after
    ``$`` are run.
    """

    def block(found: re.Match[str]) -> str:
        language, text = found.groups()
        if language == "console":
            lines = [line for line in text.splitlines() if line.startswith("$ ")]
            return "```console\n" + "".join(f"{line}\n{run(line[2:], directory)}" for line in lines) + "```"
        if named := FILE_LINE.match(text):
            file = directory / named[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return found.group()

    return BLOCK.sub(block, page)


def run(line: str, directory: Path) -> str:
    """What a command prints to a terminal of 80 columns whose interpreter is this one."""
    if line.startswith(INSTALLS):
        return ""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CI", "NOETA_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{bare['PATH']}"
    asked = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=directory,
        env={**bare, **plugin(), "PATH": path, "COLUMNS": "80", "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    return f"{asked.stdout.strip()}\n"


def plugin() -> dict[str, str]:
    """What makes pytest find the fixture where noeta was installed, to be edited, before it had the entry point."""
    installed = {one.value for one in entry_points(group="pytest11")}
    return {} if PLUGIN in installed else {"PYTEST_PLUGINS": PLUGIN}


def shape(page: str) -> list[str]:
    """Its lines, without what differs from run to run or with every change of the runtime: spans of time, the rulers
    that fill a line beside them, hashes."""
    return [re.sub(r"=+", "=", re.sub(r"\b\d+\.\d\ds\b|\b[0-9a-f]{64}\b", "…", line)) for line in page.splitlines()]


@pytest.mark.slow
def test_the_guide_does_what_it_says(tmp_path: Path) -> None:
    page = GUIDE.read_text()

    assert shape(follow(page, tmp_path)) == shape(page), "rewrite it: python -m tests.sim.test_crash_guide"

    written = {path.name for path in tmp_path.glob("*.py")}
    assert written == {"pay.py", "shop.py", "crash_shop.py", "test_crash_shop.py", "test_regressions.py"}
    assert len(list((tmp_path / "tests/regressions").iterdir())) == 2


def test_output_that_is_not_what_the_page_says_is_seen(tmp_path: Path) -> None:
    page = "```python\n# a/b.txt\n```\ntext\n```console\n$ pip install x\n$ cat a/b.txt\nsomething\n$ echo two\n```\n"

    followed = follow(page, tmp_path)

    assert followed == page.replace("something\n", "# a/b.txt\n").replace("echo two\n", "echo two\ntwo\n")


def test_only_times_and_hashes_are_compared_by_shape() -> None:
    assert shape(f"trace {'0a' * 32}") == shape(f"trace {'1b' * 32}")
    assert shape("=== 1 failed in 0.35s ===") == shape("== 1 failed in 12.01s ==")
    assert shape("1 failed in 0.35s") != shape("2 failed in 0.35s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as empty:
        GUIDE.write_text(follow(GUIDE.read_text(), Path(empty)))
