"""`noeta cluster` and `noeta check` refuse nonsense with 64 and one line, before anything is done."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from noeta.chaos.asked import Asked, seeds_of
from noeta.chaos.campaign import WAITING, Row, counts_table, table, verdict_of, worst
from noeta.chaos.situations import SITUATIONS
from noeta.commands.cluster import DEFAULTS
from noeta.core.errors import BadInput
from tests.cluster.runs import TAKEN_OVER, hand_made

NOBODY = "postgresql://nobody:secret@127.0.0.1:1/none"


def noeta(*arguments: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    plain = {key: value for key, value in os.environ.items() if not key.startswith("NOETA_")}
    return subprocess.run(
        [sys.executable, "-m", "noeta", *arguments],
        cwd=folder,
        env={**plain, "PYTHONPATH": str(Path(__file__).parents[2]), **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "environ", "named"),
    [
        ([], {"NOETA_CLUSTER_SEED": "seven"}, "NOETA_CLUSTER_SEED"),
        ([], {"NOETA_CLUSTER_SEED": "-1"}, "NOETA_CLUSTER_SEED"),
        ([], {"NOETA_CLUSTER_TASKS": "0"}, "NOETA_CLUSTER_TASKS"),
        ([], {"NOETA_CLUSTER_TASKS": "1.5"}, "NOETA_CLUSTER_TASKS"),
        ([], {"NOETA_CLUSTER_SECONDS": "-1"}, "NOETA_CLUSTER_SECONDS"),
        ([], {"NOETA_CLUSTER_SECONDS": "nan"}, "NOETA_CLUSTER_SECONDS"),
        ([], {"NOETA_CLUSTER_SECONDS": "inf"}, "NOETA_CLUSTER_SECONDS"),
        (["--seconds", "-1"], {}, "--seconds, or NOETA_CLUSTER_SECONDS: expected a number of seconds from 1"),
        (["--tasks", "0"], {}, "--tasks, or NOETA_CLUSTER_TASKS: expected a whole number from 1"),
        (["--workers", "1"], {}, "--workers"),
        (["--lease", "0"], {}, "--lease"),
        (["--seeds", "9..3"], {}, "--seeds"),
        (["--seeds", "1,1"], {}, "--seeds"),
        (["--seeds", "1..2", "--seed", "3"], {}, "--seeds"),
        (["--schedule", "nowhere.json"], {}, "--schedule"),
        (["--mutant", "foo"], {}, "--mutant"),
        (["--mutant", "os:nothing"], {}, "--mutant"),
        (["--mutant", "os:sep"], {}, "--mutant"),
        ([], {"NOETA_TEST_POSTGRES_DSN": NOBODY}, "127.0.0.1:1"),
        (["--dsn", "postgresql://[broken"], {}, "connection string"),
    ],
)
def test_nonsense_is_refused_in_one_line(
    tmp_path: Path, arguments: list[str], environ: dict[str, str], named: str
) -> None:
    done = noeta("cluster", *arguments, folder=tmp_path, **environ)

    assert done.returncode == 64, done
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert named in done.stderr
    assert "secret" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_option_is_bad_usage_and_not_an_unknown_verdict(tmp_path: Path) -> None:
    assert noeta("cluster", "--nonsense", folder=tmp_path).returncode == 64
    assert noeta("cluster", "stray", folder=tmp_path).returncode == 64


def test_a_schedule_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("{}")

    done = noeta("cluster", "--schedule", "s.json", folder=tmp_path)

    assert done.returncode == 64
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]


def test_no_postgres_is_one_line_and_exit_3_soon(tmp_path: Path) -> None:
    hidden = (
        "import noeta.testing.postgres.source as s; s._first_system = lambda e: None; s._embedded = lambda: None;"
        "import sys; sys.argv = ['noeta', 'cluster']; from noeta.cli import main; main()"
    )
    began = time.monotonic()
    plain = {key: value for key, value in os.environ.items() if not key.startswith("NOETA_")}
    done = subprocess.run(
        [sys.executable, "-c", hidden],
        cwd=tmp_path,
        env={**plain, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 3
    assert len(done.stderr.strip().splitlines()) == 1
    assert "no Postgres found" in done.stderr
    assert time.monotonic() - began < 10
    assert list(tmp_path.iterdir()) == []


def test_the_defaults_stand_in_the_help(tmp_path: Path) -> None:
    done = noeta("cluster", "--help", folder=tmp_path)

    assert done.returncode == 0
    for words in ("NOETA_CLUSTER_SEED", "default: 90", "default: 75", "NOETA_TEST_POSTGRES_DSN", "64 bad usage"):
        assert words in " ".join(done.stdout.split()), words


def test_check_judges_a_directory_and_says_what_is_broken(tmp_path: Path) -> None:
    made = hand_made(tmp_path, (*TAKEN_OVER[:8], (1, TAKEN_OVER[8][1])))

    done = noeta("check", str(made.root), folder=tmp_path)

    assert done.returncode == 1
    assert "one-writer is broken" in done.stdout
    assert "verdict=invalid" in done.stdout.strip().splitlines()[-1]


def test_check_of_too_little_is_unknown(tmp_path: Path) -> None:
    assert noeta("check", str(hand_made(tmp_path, effects=()).root), folder=tmp_path).returncode == 2


@pytest.mark.parametrize(("target", "code"), [("nowhere", 64), (".", 64), (NOBODY, 3), ("postgresql://[broken", 64)])
def test_check_refuses_what_is_neither_run_nor_store(tmp_path: Path, target: str, code: int) -> None:
    done = noeta("check", target, folder=tmp_path)

    assert done.returncode == code
    assert len(done.stderr.strip().splitlines()) == 1
    assert "secret" not in done.stderr


def test_seeds_of_a_campaign() -> None:
    assert seeds_of("3..5") == [3, 4, 5]
    assert seeds_of("7") == [7]
    assert seeds_of("9,2") == [9, 2]
    with pytest.raises(BadInput):
        seeds_of("1..100000")


def test_a_campaign_is_as_good_as_its_worst_run() -> None:
    assert worst([]) == 2
    assert worst([0, 0]) == 0
    assert worst([0, 2]) == 2
    assert worst([2, 3]) == 3
    assert worst([3, 130]) == 130
    assert worst([0, 3, 1, 130]) == 1


def test_a_campaign_in_which_something_never_happened_is_unknown() -> None:
    rows = [Row(("1", "valid"), 0, {"a": 1}), Row(("2", "valid"), 0, {"a": 2})]

    assert verdict_of(rows, {"a": 3})[0] == 0
    code, lines = verdict_of(rows, {"a": 4})
    assert code == 2
    assert any("never happened in this campaign" in line for line in lines)
    assert len(list(table(rows))) == 3


def test_a_campaign_counts_what_its_tasks_waited_for_by_run() -> None:
    seen = {"message-taken-running": 3, "message-taken-waiting": 4, "timer-fired": 5, "commit-cut-not-landed": 6}
    head, line = counts_table([Row(("7", "valid"), 0, seen)], WAITING)

    found = dict(zip(re.split(r" {2,}", head.strip()), line.split(), strict=True))
    assert found["seed"] == "7"
    assert {name: count for name, count in found.items() if count != "0"} == {
        "seed": "7",
        "taken": "7",
        "timers": "5",
        "not": "6",
    }
    counted = {name for _, _, names in WAITING for name in names}
    assert counted <= set(SITUATIONS)


def test_the_defaults_that_help_states_are_those_of_a_run() -> None:
    """The command keeps them as text, so that a worker's command line need not load the harness."""
    asked = Asked(seed=1)

    shown = {
        "tasks": asked.tasks,
        "seconds": asked.seconds,
        "workers": asked.workers,
        "concurrency": asked.concurrency,
        "lease": asked.lease_seconds,
    }
    assert {name: f"{value:g}" for name, value in shown.items()} == DEFAULTS
