"""The pytest fixture: what it weighs, how it fails, and what it leaves behind."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from noeta.testing.crash_plugin import Crash
from tests.sim import crash_apps

ROOT = Path(__file__).parents[2]
PLUGIN = "noeta.testing.crash_plugin"
HEAVY = (
    "greenlet",
    "invariants",
    "msgspec",
    "noeta.backends",
    "noeta.chaos",
    "noeta.core",
    "psycopg",
    "scripted_model",
)


@pytest.fixture
def crash(tmp_path: Path) -> Crash:
    return Crash(tmp_path / "kept", tmp_path)


def test_every_pytest_that_finds_noeta_installed_has_the_fixture() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["entry-points"]["pytest11"] == {"noeta": PLUGIN}


def test_the_plugin_imports_nothing_heavy() -> None:
    """It is loaded by tests that have nothing to do with noeta."""
    code = f"import {PLUGIN}, sys; print(*[name for name in {HEAVY!r} if name in sys.modules])"

    asked = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert asked.stdout.split() == []


def test_without_the_extra_its_name_is_told() -> None:
    code = "import sys; sys.modules['greenlet'] = None; import noeta.testing.crash"

    asked = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert "ImportError: noeta.testing.crash needs the chaos extra: pip install 'noeta[chaos]'" in asked.stderr


def test_a_failure_is_a_story_of_at_most_fifteen_lines_a_file_and_a_command(crash: Crash, tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception) as failed:
        crash.everywhere(crash_apps.pays_twice, modes=["kill"])

    (file,) = (tmp_path / "kept").iterdir()
    story = f"{failed.value}".splitlines()
    assert story[0] == "invalid: 22 of 24 strikes survived in 26 executions; the first:"
    assert len(story[1:-2]) <= 15
    assert story[-2] == f"schedule: kept/{file.name}"
    assert story[-1] == f"again: noeta sim replay kept/{file.name} --trace"


def test_a_kept_failure_is_replayed_by_path_and_by_text(crash: Crash, tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception):
        crash.everywhere(crash_apps.pays_twice, modes=["kill"], directory="elsewhere")
    (file,) = (tmp_path / "elsewhere").iterdir()

    with pytest.raises(pytest.fail.Exception, match=r"^invalid: elsewhere/.*\.json\n  effects: .*was had 2 times"):
        crash.replay(file.relative_to(tmp_path))
    with pytest.raises(pytest.fail.Exception, match=r"^invalid: the schedule\n"):
        crash.replay(file.read_text())
    crash.replay(file.read_text().replace("pays_twice", "pays_once"))


def test_a_schedule_that_strikes_nothing_fails_as_unknown(crash: Crash, tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception):
        crash.everywhere(crash_apps.pays_twice, modes=["freeze"])
    (file,) = (tmp_path / "kept").iterdir()

    with pytest.raises(pytest.fail.Exception, match=r"^unknown: the schedule\n"):
        crash.replay(file.read_text().replace("tool.before_run", "tool.no_such_point"))


def test_a_survivor_leaves_nothing_behind_and_tells_what_was_tried(crash: Crash, tmp_path: Path) -> None:
    report = crash.everywhere(crash_apps.pays_once, modes=["kill"])

    assert report.survived == report.strikes == 24
    assert list(tmp_path.iterdir()) == []


def test_a_search_that_shows_nothing_fails(crash: Crash) -> None:
    with pytest.raises(pytest.fail.Exception, match="unknown: "):
        crash.everywhere(crash_apps.fails_in_peace, modes=["kill_client"])
