"""Who is found below a process, and that a process which only has the same pid is never hit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from noeta.runtime.jobs import tree
from noeta.runtime.jobs.tree import Process
from tests.unit.runtime.jobs.stage import is_stopped, wait_until


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]) as started:
        yield started
        started.kill()


def seen(pid: int) -> Process:
    process = tree.look(pid)
    assert process is not None
    return process


def test_a_process_that_only_has_the_same_pid_is_never_hit(child: subprocess.Popen[bytes]) -> None:
    process = seen(child.pid)

    assert not tree.send(process._replace(start=process.start - 1), signal.SIGKILL)
    assert not tree.send(process._replace(start=process.start + 1), signal.SIGKILL)

    assert child.poll() is None
    assert tree.send(process, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert not tree.send(process, signal.SIGKILL)


def test_the_start_time_is_looked_at_after_the_descriptor_is_opened(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that, the pid may still be given away in between."""
    steps: list[str] = []
    open_one, look = os.pidfd_open, tree.look

    def opened(pid: int) -> int:
        steps.append("open")
        return open_one(pid)

    def looked(pid: int) -> Process | None:
        steps.append("look")
        return look(pid)

    monkeypatch.setattr(os, "pidfd_open", opened)
    monkeypatch.setattr(tree, "look", looked)

    tree.send(look(child.pid) or pytest.fail("it is gone"), signal.SIGCONT)

    assert steps == ["open", "look"]


def pretend(monkeypatch: pytest.MonkeyPatch, *processes: Process) -> None:
    monkeypatch.setattr(tree, "everyone", lambda: {process.pid: process for process in processes})


def test_descendants_are_those_below_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(
        monkeypatch,
        Process(1, 0, 0, b"S"),
        Process(10, 5, 1, b"S"),
        Process(11, 6, 10, b"S"),
        Process(12, 6, 11, b"Z"),
        Process(13, 6, 12, b"T"),
        Process(20, 7, 10, b"S"),
        Process(21, 8, 20, b"S"),
        Process(30, 9, 1, b"S"),
    )

    assert {process.pid for process in tree.below([10])} == {11, 12, 13, 20, 21}
    assert {process.pid for process in tree.below([10], spare={20})} == {11, 12, 13}
    assert {process.pid for process in tree.below([11, 20, 99])} == {12, 13, 21}


def test_a_child_that_is_older_than_its_parent_is_a_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parent ended, and the parent's pid was given to one of ours, while we looked at all processes."""
    pretend(monkeypatch, Process(10, 5, 1, b"S"), Process(11, 100, 10, b"S"), Process(12, 99, 11, b"S"))

    assert [process.pid for process in tree.below([10])] == [11]


def test_one_whose_parent_ended_while_we_looked_is_found_with_its_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    me = os.getpid()
    looks = {10: [Process(10, 5, 9, b"S"), Process(10, 5, me, b"S")], me: [Process(me, 1, 1, b"S")]}
    monkeypatch.setattr(os, "listdir", lambda path: ["10", str(me), "self", "9"])
    monkeypatch.setattr(tree, "look", lambda pid: looks[pid].pop(0) if looks.get(pid) else None)

    assert tree.everyone()[10].parent == me


def test_an_odd_name_does_not_confuse() -> None:
    program = (
        "import ctypes, time; ctypes.CDLL(None).prctl(15, b') S 1 (', 0, 0, 0); print(flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", program], stdout=subprocess.PIPE) as odd:
        assert odd.stdout is not None
        odd.stdout.readline()
        process = seen(odd.pid)
        odd.kill()

    assert (process.parent, process.is_dead) == (os.getpid(), False)


def test_all_are_stopped_before_the_first_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is killed while its neighbours run may be replaced by them; whoever shows up late is stopped, too."""
    sent: list[tuple[int, int]] = []
    rounds = [[11, 12], [11, 12, 13], [11, 12, 13]]

    def below(roots: object, spare: object) -> list[Process]:
        pids = rounds.pop(0) if len(rounds) > 1 else rounds[0]
        return [Process(pid, 5, 10, b"S") for pid in pids] + [Process(14, 5, 10, b"Z")]

    monkeypatch.setattr(tree, "below", below)
    monkeypatch.setattr(tree, "send", lambda process, number: sent.append((process.pid, number)))

    assert tree.kill_below([10]) == 3

    stop, kill = signal.SIGSTOP, signal.SIGKILL
    assert sent == [(11, stop), (12, stop), (13, stop), (11, kill), (12, kill), (13, kill)]


def test_a_real_tree_is_killed_and_its_root_left_alone() -> None:
    program = "sh -c 'sleep 600 & setsid sleep 600 & kill -STOP $$' & echo; wait; exec sleep 600"
    with subprocess.Popen(["/bin/sh", "-c", program], stdout=subprocess.PIPE, start_new_session=True) as root:
        assert root.stdout is not None
        root.stdout.readline()
        wait_until(lambda: any(is_stopped(process.pid) for process in tree.below([root.pid])), "it is stopped")
        tree_before = tree.below([root.pid])

        assert tree.kill_below([root.pid]) == len(tree_before) == 3

        wait_until(lambda: all(look is None or look.is_dead for look in map(tree.look, pids(tree_before))), "killed")
        assert not seen(root.pid).is_dead
        root.kill()


def pids(processes: list[Process]) -> list[int]:
    return [process.pid for process in processes]
