"""The doctor tries what it tells, says what helps, and answers with the exit code that follows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from noeta import cli
from noeta.chaos.doctor import CHECK, CLUSTER, JOBS, SIM, Examined, Finding, State
from noeta.chaos.doctor import machine as of_machine
from noeta.chaos.doctor import processes as of_processes
from noeta.chaos.doctor import programs as of_programs
from noeta.chaos.doctor.machine import machine
from noeta.chaos.doctor.postgres import postgres
from noeta.chaos.doctor.processes import processes
from noeta.chaos.doctor.programs import programs
from noeta.testing.postgres import PostgresSource
from noeta.testing.postgres.server import free_port

NOWHERE = "unix:///nonexistent/noeta-doctor"


def named(findings: object, name: str) -> Finding:
    assert isinstance(findings, (list, tuple))
    (found,) = [one for one in findings if one.name == name]
    assert isinstance(found, Finding)
    return found


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)


# What follows from findings.


def test_a_machine_without_gaps_is_ready() -> None:
    found = Examined((Finding("cores", State.OK, "2"), Finding("docker", State.NOT_NEEDED, "no engine")))

    assert found.sentence() == "ready: make check, make cluster, noeta sim"
    assert found.exit_code == 0


def test_what_is_missing_stops_only_the_jobs_that_need_it() -> None:
    found = Examined((Finding("Postgres", State.MISSING, "none", "install one", (CHECK, CLUSTER)),))

    assert found.sentence() == (
        "ready: noeta sim; make check lacks Postgres (install one); make cluster lacks Postgres (install one)"
    )
    assert found.exit_code == 1


def test_what_is_limited_stops_nothing_and_says_what_helps() -> None:
    one = Finding("cores", State.LIMITED, "1", "more cores", JOBS)

    assert Examined((one,)).exit_code == 0
    assert "help: more cores" in one.lines()[1]


# Probes, on this machine and with one thing taken away.


def test_this_machine_stops_processes_and_lets_orphans_die() -> None:
    found = list(processes())

    assert [one.state for one in found] == [State.OK] * 3


def test_child_that_cannot_be_stopped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where SIGSTOP did nothing, as a harmless signal does."""
    monkeypatch.setattr(of_processes, "ANSWER_SECONDS_MAX", 1.0)
    monkeypatch.setattr(signal, "SIGSTOP", signal.SIGCONT)

    assert named(list(processes()), "SIGSTOP and SIGCONT").found == "a child goes on after SIGSTOP"


def test_orphan_that_lives_on_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the signal to die by is asked for and never sent."""
    monkeypatch.setattr(of_processes, "ORPHAN_SECONDS_MAX", 1)
    unsent = of_processes.ORPHAN.replace("signal.SIGKILL", "0").replace("signal.alarm(5)", "signal.alarm(1)")
    assert unsent.count("alarm(1)") == 1
    monkeypatch.setattr(of_processes, "ORPHAN", unsent)

    found = named(list(processes()), "parent-death signal")
    assert (found.state, found.found) == (State.LIMITED, "an orphan lives on")


def test_package_that_is_absent_is_missing_only_where_a_job_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    extras = (
        of_programs.Extra("chaos", ("no-such-package-of-noeta",), "the storm", (SIM,)),
        of_programs.Extra("dask", ("no-such-package-of-noeta",), "Dask"),
    )
    monkeypatch.setattr(of_programs, "EXTRAS", extras)
    found = list(programs())

    assert named(found, "extra chaos").state is State.MISSING
    assert named(found, "extra chaos").help == "pip install 'noeta[chaos]'"
    assert named(found, "extra dask").state is State.NOT_NEEDED


def test_little_disk_is_limited_and_none_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(of_machine, "DISK_BYTES_WANTED", 1 << 62)
    assert named(list(machine(tmp_path)), "runs directory").state is State.LIMITED

    monkeypatch.setattr(of_machine, "DISK_BYTES_NEEDED", 1 << 62)
    assert named(list(machine(tmp_path)), "runs directory").state is State.MISSING


def test_place_where_nothing_can_be_written_is_missing() -> None:
    assert named(list(machine(Path("/proc"))), "fsync").state is State.MISSING


def test_clock_that_stands_still_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(of_machine, "CLOCK_SECONDS_MAX", 0.05)
    monkeypatch.setattr(time, "time", lambda: 1.0)
    found = named(list(machine(tmp_path)), "clocks")

    assert (found.state, found.found) == (State.MISSING, "the wall clock stands still")


def test_port_that_cannot_be_bound_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(of_machine, "LOOPBACK", "192.0.2.1")  # reserved for documentation: nobody has it

    assert named(list(machine(tmp_path)), "ports").state is State.MISSING


# Postgres.


def test_sources_stand_in_the_order_in_which_they_are_tried() -> None:
    names = [one.name for one in postgres({"PATH": os.environ["PATH"]})]

    wanted = [f"Postgres by {kind}" for kind in ("DSN", "system", "embedded", "docker")]
    assert names[:5] == [*wanted, "Postgres"]


def test_server_that_does_not_answer_blocks_tests_and_storm() -> None:
    dsn = f"postgresql://someone:hush-hush@127.0.0.1:{free_port()}/db"
    found = Examined(tuple(postgres({"NOETA_TEST_POSTGRES_DSN": dsn})))

    assert named(found.findings, "Postgres by DSN").state is State.MISSING
    assert [job for job, why in found.blockers().items() if why] == [CHECK, CLUSTER]
    assert "hush" not in repr(found)


def test_forced_engine_that_is_not_there_is_missing_by_name() -> None:
    found = list(postgres({"NOETA_POSTGRES": "docker"}))

    assert named(found, "Postgres by docker").state is State.MISSING
    assert f"no Docker engine answers at {NOWHERE}" in named(found, "Postgres").found


def test_rights_of_the_role_are_asked_of_the_server(pg_dsn: str) -> None:
    found = list(postgres({"NOETA_TEST_POSTGRES_DSN": pg_dsn}))

    assert named(found, "Postgres by DSN").state is State.OK
    assert "superuser" in named(found, "Postgres role").found


def test_who_runs_a_server_of_our_own_is_told(postgres_source: PostgresSource) -> None:
    if postgres_source.bin_dir is None:
        pytest.skip("a server was given by address: none of our own would run")
    told = named(list(postgres({"PATH": os.environ["PATH"]})), "Postgres user").found

    assert ("root" in told) == (os.getuid() == 0)


# The command.


def test_command_ends_with_the_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr("noeta.commands.doctor.os.environ", {"NOETA_POSTGRES": "docker"})
    code = cli.run(["doctor", "--runs-dir", str(tmp_path / "runs")])

    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert lines[-1].startswith("ready: noeta sim; make check lacks Postgres")
    assert not list(tmp_path.iterdir())


def test_an_installed_noeta_is_not_asked_for_its_own_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lacks = Finding("extra test", State.MISSING, "no pytest", "", (CHECK,))
    monkeypatch.setattr("noeta.chaos.doctor.examine", lambda environ, runs_dir: Examined((lacks,)))
    command = ["doctor", "--runs-dir", str(tmp_path)]

    in_a_clone = cli.run(command)
    monkeypatch.setattr("noeta.commands.doctor.is_clone", lambda: False)
    installed = cli.run(command)

    assert (in_a_clone, installed) == (1, 0)
    assert capsys.readouterr().out.splitlines()[-1] == "ready: make cluster, noeta sim"


def test_json_says_the_same(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "noeta", "doctor", "--json", "--runs-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NOETA_POSTGRES": "docker"},
        cwd=Path(__file__).parents[2],
    )

    told = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    assert told["ready"] == [SIM]
    assert {one["state"] for one in told["findings"]} <= {state.value for state in State}
    assert all(one["help"] for one in told["findings"] if one["state"] == "missing")


def test_unknown_option_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", "--colour"]) == cli.BAD_USAGE
