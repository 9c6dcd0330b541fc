"""However a harness ends, nothing of its run is left: no process (also no stopped one), port, schema, or directory.

The harness is a process of its own, with workers of which one is stopped. What it started is found by a mark in
the environment, which children inherit; so nothing is missed because nobody wrote it down.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

MARK = "NOETA_TEST_MARK"
LEFT_SECONDS_MAX = 60.0
START_SECONDS_MAX = 60.0

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


class Site:
    """One harness process, and where to look for what it left."""

    def __init__(self, dsn: str, tmp_path: Path) -> None:
        self.mark = secrets.token_hex(8)
        self.dsn, self.schema, self.directory = dsn, f"storm_{self.mark}", tmp_path / "scratch"
        self.harness = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.faults.small_harness", dsn, self.schema, str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
            env={**os.environ, MARK: self.mark},
        )
        self.said = self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.harness.stdout is not None
        line = self.harness.stdout.readline()
        assert line, self.harness.stderr and self.harness.stderr.read()
        found: dict[str, Any] = json.loads(line)
        return found

    def say(self, word: str) -> None:
        assert self.harness.stdin is not None
        self.harness.stdin.write(f"{word}\n")
        self.harness.stdin.flush()

    def kill(self, *pids: int) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def left(self) -> list[str]:
        """What is still there; this test's own process and zombies apart."""
        found = [f"process {pid}: {line}" for pid, line in processes_with(self.mark)]
        if self.directory.exists():
            found.append(f"directory {self.directory}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.said["port"])) == 0:
                found.append(f"port {self.said['port']}")
        with psycopg.connect(self.dsn) as session:
            if session.execute("SELECT FROM pg_namespace WHERE nspname = %s", [self.schema]).fetchone() is not None:
                found.append(f"schema {self.schema}")
        return found

    def assert_nothing_left(self) -> None:
        deadline = time.monotonic() + LEFT_SECONDS_MAX
        self.harness.wait(LEFT_SECONDS_MAX)
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not left

    def close(self) -> None:
        for pid, _ in processes_with(self.mark):
            os.kill(pid, signal.SIGKILL)
        self.harness.wait()
        for pipe in (self.harness.stdin, self.harness.stdout, self.harness.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass


def processes_with(mark: str) -> list[tuple[int, str]]:
    found = []
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found.append((int(entry.name), line))
            except OSError:
                continue
    return found


@pytest.fixture
def site(pg_dsn: str, tmp_path: Path) -> Iterator[Site]:
    here = Site(pg_dsn, tmp_path)
    try:
        assert len(processes_with(here.mark)) == 7, "a harness, two reapers, a proxy, three workers"
        yield here
    finally:
        here.close()


def test_success_leaves_nothing(site: Site) -> None:
    assert site.harness.stdin is not None
    site.harness.stdin.close()

    site.assert_nothing_left()
    assert site.harness.returncode == 0


def test_failure_leaves_nothing(site: Site) -> None:
    site.say("fail")

    site.assert_nothing_left()
    assert site.harness.returncode == 1


def test_ctrl_c_leaves_nothing(site: Site) -> None:
    os.killpg(site.harness.pid, signal.SIGINT)

    site.assert_nothing_left()
    assert site.harness.returncode == -signal.SIGINT


def test_ctrl_c_twice_leaves_nothing(site: Site) -> None:
    os.killpg(site.harness.pid, signal.SIGINT)
    time.sleep(0.1)  # somewhere in its clean-up
    os.killpg(site.harness.pid, signal.SIGINT)

    site.assert_nothing_left()


def test_kill_9_of_the_harness_leaves_nothing(site: Site) -> None:
    site.kill(site.harness.pid)

    site.assert_nothing_left()


def test_kill_9_of_the_harness_group_leaves_nothing(site: Site) -> None:
    os.killpg(site.harness.pid, signal.SIGKILL)

    site.assert_nothing_left()


@pytest.mark.parametrize("which", [0, 1])
def test_kill_9_of_the_harness_and_one_reaper_at_once_leaves_nothing(site: Site, which: int) -> None:
    site.kill(site.said["reapers"][which], site.harness.pid)

    site.assert_nothing_left()


def test_kill_9_of_the_workers_and_the_harness_leaves_nothing(site: Site) -> None:
    site.kill(site.harness.pid, *site.said["workers"])

    site.assert_nothing_left()


def test_a_stopped_proxy_is_not_left_either(site: Site) -> None:
    os.kill(site.said["proxy"], signal.SIGSTOP)
    site.kill(site.harness.pid)

    site.assert_nothing_left()


def test_killed_reapers_are_replaced_and_the_new_ones_clean_up(site: Site) -> None:
    site.kill(*site.said["reapers"])
    deadline = time.monotonic() + LEFT_SECONDS_MAX
    while True:
        site.say("reapers")
        now = site.answer()
        if now["replaced"] == 2:
            break
        assert time.monotonic() < deadline, now
        time.sleep(0.05)
    assert not set(now["reapers"]) & set(site.said["reapers"])
    site.kill(site.harness.pid)

    site.assert_nothing_left()


def test_kill_9_of_the_harness_and_both_reapers_leaves_no_process(site: Site) -> None:
    """Schema and directory are left to the sweep of the next start then; stopped workers are not."""
    site.kill(*site.said["reapers"], site.harness.pid)
    site.harness.wait()
    deadline = time.monotonic() + LEFT_SECONDS_MAX
    while (left := processes_with(site.mark)) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert not left
    from noeta.chaos.reaper import drop_schema

    drop_schema(site.dsn, site.schema)
