"""The command prints what a seed holds, and answers nonsense with 64 and a reason."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from scripted_model.__main__ import main
from scripted_model.foretell import foretell_all
from scripted_model.generate import workload
from scripted_model.profile import Kind
from scripted_model.workload import Workload


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scripted_model", *arguments], capture_output=True, text=True, check=False
    )


def test_every_task_is_printed_with_what_is_foretold(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "7"]) == 0

    printed = capsys.readouterr().out
    assert printed.count("  foretold ") == len(Kind)
    assert all(task.id in printed for task in workload(7, len(Kind)).tasks)
    assert printed.isascii()


def test_json_holds_the_workload_and_what_is_foretold() -> None:
    done = run("--seed", "7", "--tasks", "25", "--json")

    read = msgspec.json.decode(done.stdout, type=dict[str, msgspec.Raw])
    load = msgspec.json.decode(read["workload"], type=Workload)
    assert load == workload(7, 25)
    assert bytes(read["foretold"]) == msgspec.json.encode(foretell_all(load))


def test_one_task_is_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    task = workload(7, len(Kind)).tasks[8].id

    assert main(["--seed", "7", "--task", task]) == 0
    assert capsys.readouterr().out.count("  foretold ") == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "required: --seed"),
        (["--seed", "seven"], "invalid int value: 'seven'"),
        (["--seed", "7", "--tasks", "0"], "tasks: from 1"),
        (["--seed", "7", "--lease", "nan"], "lease_seconds: above 0"),
        (["--seed", "7", "--task", "t999"], "has no task 't999'"),
        (["--seed", "7", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["--see", "7"], "required: --seed"),
    ],
)
def test_nonsense_exits_64_and_says_why(arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 64
    printed = capsys.readouterr()
    assert problem in printed.err
    assert printed.out == ""


def test_the_command_itself_exits_64_and_survives_a_reader_that_has_seen_enough() -> None:
    assert run("--seed", "x").returncode == 64
    command = f"{sys.executable} -m scripted_model --seed 7 --tasks 2000 | head -n 1"
    piped = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)

    assert piped.stderr == ""
