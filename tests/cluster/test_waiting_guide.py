"""The guide to waiting is followed as it is printed: its files are written, its commands run, its output compared.

Times are masked. A command that looks (`noeta tasks list | show`, `noeta task`) is asked until it says what the page
says, as a reader would; all others run once. The commands that install noeta are left out, the interpreter of this test
has it. ``python -m tests.cluster.test_waiting_guide`` writes what is printed today into the page, for a person to
review.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.sim.test_crash_guide import BLOCK, FILE_LINE, INSTALLS

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guide/waiting-and-delegating.md"
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{3})?(Z|[+-]\d\d:\d\d)| *\+[\d.]+|\b[\d.]+ (s|min)\b")
LOOKS = ("noeta tasks list", "noeta tasks show", "noeta task ")
COMMAND_SECONDS_MAX = 60.0
STILL_SECONDS = 8.0
"""Above the guide's longest pause, a lease: what has not changed for so long does not change by itself."""


class Reader:
    """Does in an empty directory what the page says, in its order; ``page`` is then the page as it should have been.

    Without ``believes`` a look is repeated until it has come to rest, instead of until it says what is printed.
    ``still``: for so many seconds nothing may happen, and then go on by itself.
    """

    def __init__(self, directory: Path, *, believes: bool, still: float = STILL_SECONDS) -> None:
        bare = {name: value for name, value in os.environ.items() if not name.startswith(("NOETA_", "CI"))}
        self._env = bare | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{bare['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._directory, self._believes, self._still = directory, believes, still
        self._workers: list[int] = []

    def follow(self, page: str) -> str:
        try:
            return BLOCK.sub(self._block, page)
        finally:
            for worker in self._workers:
                if b"noeta" in command_of(worker):  # not somebody else's by now
                    os.kill(worker, signal.SIGKILL)

    def _block(self, found: re.Match[str]) -> str:
        language, text = found.groups()
        if language != "console":
            if named := FILE_LINE.match(text):
                (self._directory / named[1]).write_text(text)
            return found.group()
        commands = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
        told = ""
        for command in commands:
            line, _, printed = command.partition("\n")
            told += f"$ {line}\n{self._look(line, printed) if line.startswith(LOOKS) else self._run(line)}"
        return f"```console\n{told}```"

    def _look(self, line: str, printed: str) -> str:
        said = self._run(line)
        now = time.monotonic()
        deadline, changed = now + COMMAND_SECONDS_MAX + self._still, now
        while time.monotonic() < deadline:
            if self._believes and masked(said) == masked(printed):
                break
            if not self._believes and time.monotonic() - changed > self._still:
                break
            time.sleep(0.2)
            again = self._run(line)
            changed = changed if masked(again) == masked(said) else time.monotonic()
            said = again
        return said

    def _run(self, line: str) -> str:
        if line.startswith(INSTALLS):
            return ""
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self._env[name] = value
            return ""
        asked = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self._directory,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        if line.startswith("noeta worker"):
            self._workers.append(int((self._directory / "worker.pid").read_text()))
        return asked.stdout


def command_of(process: int) -> bytes:
    """What it runs; nothing, if it has ended. Its parent was a shell that is gone, so that nobody can wait for it."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def masked(text: str) -> list[str]:
    """Its lines, without instants and spans: no two runs share them."""
    return [TIME.sub("TIME", line) for line in text.splitlines()]


def test_the_guide_does_what_it_says(tmp_path: Path) -> None:
    page = GUIDE.read_text()

    followed = Reader(tmp_path, believes=True).follow(page)

    assert masked(followed) == masked(page), "rewrite it: python -m tests.cluster.test_waiting_guide"
    assert "every task was given back" in (tmp_path / "second.log").read_text()
    assert "stopped" not in (tmp_path / "first.log").read_text(), "it was killed, not told to stop"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as empty:
        GUIDE.write_text(Reader(Path(empty), believes=False).follow(GUIDE.read_text()))
