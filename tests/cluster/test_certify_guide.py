"""The guide to `noeta certify`: its files are written as they are printed, and get the verdicts that it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from noeta.chaos.certify.asked import SUBJECTS

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guide/certify-a-store.md").read_text()
FILES = re.findall(r"^```python\n# ([\w.]+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
CARDS = re.findall(r"^\$ noeta certify (.*?)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^(\w+):([\w-]+) .* (ok|FAILED|unknown|not covered)\b", re.MULTILINE)


def certified(arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    for name, text in FILES:
        (folder / name).write_text(text)
    plain = {key: value for key, value in os.environ.items() if not key.startswith("NOETA_")}
    return subprocess.run(
        [sys.executable, "-m", "noeta", "certify", *arguments.split()],
        cwd=folder,
        env=plain | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )


def test_the_store_of_the_guide_is_certified(tmp_path: Path) -> None:
    (arguments, printed), _ = CARDS
    done = certified(f"{arguments} --quick", tmp_path)
    whole = {(part, subject) for part, subjects in SUBJECTS.items() for subject in subjects}
    shown = {(part, subject): verdict for part, subject, verdict in LINE.findall(printed)}

    assert done.returncode == 0, done.stdout
    assert {one for one in whole if one[0] not in ("processes", "storm")} == {one for one in shown if one[1] != "all"}
    # A quick run has no modes of two strikes; every line that it has is in the page, with its verdict.
    assert set(LINE.findall(done.stdout)) <= set(LINE.findall(printed))
    assert "verdict=valid (of a store that lives in one process)" in printed.splitlines()[-1]


def test_the_hurried_store_fails_as_it_is_printed(tmp_path: Path) -> None:
    _, (arguments, printed) = CARDS
    done = certified(arguments, tmp_path)

    def bare(text: str) -> str:
        return re.sub(r"\d{16}|\d+\.\d s|seconds=\S+|noeta=\S+", "…", text)

    assert done.returncode == 1, done.stdout
    assert bare(done.stdout) == bare(printed)


def test_its_factory_is_at_most_twenty_lines_long() -> None:
    factory = dict(FILES)["mystore.py"].partition("def make_store")[2]

    assert 0 < len(factory.strip().splitlines()) <= 20
