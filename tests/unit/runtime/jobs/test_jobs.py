"""The jobs of one claim: how they start, how their ends are told, and what they get from their worker."""

from __future__ import annotations

import gc
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noeta.core.errors import BadInput
from noeta.core.jobs import JOBS_MAX, JobEnd, Jobs, JobSpec
from noeta.runtime.jobs import minder, supervisor, table, tree
from noeta.runtime.jobs.table import JobTable
from noeta.runtime.threads import ThreadWorld
from tests.unit.runtime.jobs.stage import (
    LONG,
    MARK,
    WAIT_SECONDS,
    AWorker,
    alive,
    children_named,
    claim_held,
    is_stopped,
    job_table,
    wait_ends,
    wait_until,
)


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    with job_table() as (mine, world):
        yield mine.of(claim_held(world, LONG))


def end_of(jobs: Jobs, command: str, **spec: Any) -> JobEnd:
    """How a job ended that does nothing but this."""
    jobs.start("1-0", JobSpec(command, **spec))
    (end,) = wait_ends(jobs, 1)
    return end


@pytest.mark.parametrize(
    ("command", "how", "exit_code", "number"),
    [
        ("true", "exited", 0, None),
        ("exit 7", "exited", 7, None),
        ("exit 255", "exited", 255, None),
        ("kill -KILL $$", "killed", None, signal.SIGKILL),
        ("kill -SEGV $$", "killed", None, signal.SIGSEGV),
        ("sh -c 'kill -KILL $$'; exit 3", "exited", 3, None),
        ("no-such-program-anywhere", "exited", 127, None),
    ],
)
def test_exit_code_and_signal_are_those_of_the_shell(
    command: str, how: str, exit_code: int | None, number: int | None, jobs: Jobs
) -> None:
    end = end_of(jobs, command)

    assert (end.how, end.exit_code, end.signal, end.detail) == (how, exit_code, number, "")


def test_an_end_is_known_until_it_is_recorded(jobs: Jobs) -> None:
    """Live, then ended, then past: never in between. Keeps: jobs-told-once."""
    jobs.start("1-0", JobSpec("sleep 600"))
    assert (sorted(jobs.live()), sorted(jobs.known()), list(jobs.ended())) == (["1-0"], ["1-0"], [])

    assert jobs.stop()

    assert (sorted(jobs.live()), sorted(jobs.known()), sorted(jobs.past())) == ([], ["1-0"], [])
    (end,) = jobs.ended()
    assert (end.job_id, end.how, end.signal) == ("1-0", "stopped", signal.SIGTERM)
    jobs.recorded(["1-0", "never there"])
    assert (sorted(jobs.known()), list(jobs.ended()), sorted(jobs.past())) == ([], [], ["1-0"])
    assert jobs.output("1-0") is None


def test_an_end_that_nobody_will_ask_for_is_not_told(jobs: Jobs) -> None:
    jobs.start("1-0", JobSpec("sleep 600"))
    jobs.recorded(["1-0"])

    assert jobs.stop()

    assert (list(jobs.ended()), sorted(jobs.known()), jobs.changed.is_set()) == ([], [], False)


def test_the_event_is_set_by_each_end_and_is_a_new_one_after_it_was_recorded(jobs: Jobs) -> None:
    before = jobs.changed
    assert not before.is_set()

    jobs.start("1-0", JobSpec("true"))

    assert before.wait(WAIT_SECONDS)
    assert jobs.changed.is_set(), "there is an end that is not recorded"
    jobs.recorded(["1-0"])
    again = jobs.changed
    assert not again.is_set()
    jobs.start("1-1", JobSpec("true"))
    assert again.wait(WAIT_SECONDS)


def test_ends_are_told_in_their_order(jobs: Jobs) -> None:
    for number in range(3):
        jobs.start(f"1-{number}", JobSpec("sleep 600"))

    for number in (1, 2, 0):
        assert jobs.stop([f"1-{number}"])

    assert [end.job_id for end in jobs.ended()] == ["1-1", "1-2", "1-0"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (JobSpec("true", directory="no/such/place"), "No such file or directory"),
        (JobSpec("true", directory="/dev/null"), "Not a directory"),
        (JobSpec("true\0false"), "null"),
        (JobSpec("true", environment={"a": "b\0"}), "null"),
        (JobSpec("true", environment={"a=b": "c"}), "environment"),
        (JobSpec("true", environment={"a": "\udfff\ud800"}), "surrogates not allowed"),
        (JobSpec(f": {'x' * 140_000}"), "Argument list too long"),
    ],
)
def test_what_cannot_be_started_has_ended_at_once_with_the_reason(spec: JobSpec, reason: str, jobs: Jobs) -> None:
    jobs.start("1-0", spec)

    (end,) = jobs.ended()
    assert end.how == "not_started"
    assert reason in end.detail
    assert jobs.live() == set()
    assert end_of_another(jobs).how == "exited", "and the guard lives on"


def end_of_another(jobs: Jobs) -> JobEnd:
    jobs.recorded(["1-0"])
    return end_of(jobs, "true")


def test_a_guard_that_cannot_be_started_is_the_reason(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/interpreter")

    jobs.start("1-0", JobSpec("true"))

    (end,) = jobs.ended()
    assert (end.how, "/no/such/interpreter" in end.detail) == ("not_started", True)
    monkeypatch.undo()
    assert end_of_another(jobs).how == "exited"


def test_elsewhere_than_on_linux_nothing_is_started(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "plan9")

    jobs.start("1-0", JobSpec("true"))

    (end,) = jobs.ended()
    assert (end.how, end.detail) == ("not_started", "background jobs need Linux, this is plan9")


def test_as_many_jobs_as_a_task_may_have_run_at_once_and_none_more(jobs: Jobs) -> None:
    for number in range(JOBS_MAX):
        jobs.start(f"1-{number}", JobSpec("echo started; sleep 600"))
    assert len(jobs.live()) == JOBS_MAX
    wait_until(
        lambda: all((out := jobs.output(job)) is not None and out.text == "started\n" for job in jobs.live()),
        "all of them run",
    )

    jobs.start("one more", JobSpec("true"))

    (end,) = jobs.ended()
    assert (end.job_id, end.how, end.detail) == ("one more", "not_started", f"at most {JOBS_MAX} live jobs of a task")
    assert jobs.stop()
    assert len(jobs.ended()) == JOBS_MAX + 1


def test_a_process_has_as_many_live_jobs_as_it_may_open_files_for() -> None:
    """Whose task they are does not count. At the limit the worker can still open what else it needs."""
    files = 48
    most = files // table.DESCRIPTORS_PER_JOB
    with AWorker() as worker:
        worker.ask("limit", files=files)
        for number in range(most):
            worker.ask("start", job=f"1-{number}", command="sleep 600", environment={})

        worker.ask("start", job="one more", command="true", environment={})

        (end,) = worker.ask("ended")
        assert (end["job_id"], end["how"]) == ("one more", "not_started")
        assert end["detail"] == (
            f"at most {most} live jobs of a worker process that may open {files} files: end some, raise that limit, or "
            "run more workers"
        )
        assert len(worker.supervisors) == most
        assert len(list(Path(f"/proc/{worker.process.pid}/fd").iterdir())) < files * 3 // 4
        assert worker.ask("stop"), "and with them their places are free"
        worker.ask("start", job="again", command="true", environment={})
        wait_until(lambda: len(worker.ask("ended")) == most + 2, "the end of one that had room")
        assert worker.ask("ended")[-1]["how"] == "exited"


def test_a_process_has_no_more_live_jobs_than_is_sensible_however_many_files_it_may_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table, "LIVE_MAX", 2)
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_OPEN_MAX": -1}[name])  # there is no limit
    with job_table() as (mine, world):
        claims = [mine.of(claim_held(world, LONG, token=token)) for token in "abc"]
        for one in claims:
            one.start("1-0", JobSpec("sleep 600"))

        assert [sorted(one.live()) for one in claims] == [["1-0"], ["1-0"], []]
        assert claims[2].ended()[0].detail == ("at most 2 live jobs of a worker process: end some, or run more workers")


def test_of_jobs_that_begin_at_once_those_that_came_first_have_the_last_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table, "LIVE_MAX", 2)
    with job_table() as (mine, world):
        first, second, third = (
            minder.Job(world, mine.number(), "1-0", 1, lambda: 0.0, lambda job: None) for _ in range(3)
        )
        assert not mine.begins(first)
        for job in (second, third):  # both count before either of them is judged
            mine.begins(job)

        assert [bool(mine.begins(job)) for job in (second, third)] == [False, True]
        mine.is_over(first)
        assert not mine.begins(third), "a place is free"


def test_a_daemon_ends_with_the_shell_that_left_it(jobs: Jobs) -> None:
    """Nothing outlives its job, so that an end in the log is an end."""
    end = end_of(jobs, "(setsid sleep 600 &) & echo done", environment={MARK: "left-by-a-shell"})

    assert (end.how, end.exit_code, end.output.text) == ("exited", 0, "done\n")
    assert alive("left-by-a-shell") == set()


def test_orphans_that_end_while_the_job_runs_are_reaped(jobs: Jobs) -> None:
    """Or a job that runs for long would use up the machine's pids."""
    jobs.start("1-0", JobSpec("for n in 1 2 3 4 5 6 7 8; do (true &); done; echo done; exec sleep 600"))
    wait_until(lambda: (out := jobs.output("1-0")) is not None and out.text == "done\n", "all are started")
    (guard,) = children_named(os.getpid(), "noeta-guard")
    (watcher,) = children_named(guard, "noeta-job")

    wait_until(lambda: len(tree.below([watcher])) == 1, "only the shell is left")


def test_stop_lets_a_shell_end_in_its_own_way(jobs: Jobs) -> None:
    jobs.start("1-0", JobSpec("trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.01; done"))
    wait_until(lambda: (out := jobs.output("1-0")) is not None and "ready" in out.text, "the trap is set")

    assert jobs.stop(["1-0", "never there"])

    (end,) = jobs.ended()
    assert (end.how, end.exit_code, end.signal) == ("stopped", 5, None)
    assert end.output.text.endswith("bye\n")


def test_stop_reaches_a_shell_that_was_stopped(jobs: Jobs) -> None:
    jobs.start("1-0", JobSpec("trap 'exit 6' TERM; echo $$; kill -STOP $$; sleep 600"))
    wait_until(lambda: (out := jobs.output("1-0")) is not None and "\n" in out.text, "the trap is set")
    told = jobs.output("1-0")
    assert told is not None
    wait_until(lambda: is_stopped(int(told.text)), "the shell is stopped")

    assert jobs.stop()

    assert [(end.how, end.exit_code) for end in jobs.ended()] == [("stopped", 6)]


def test_what_ignores_sigterm_is_killed_after_the_grace(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "GRACE_SECONDS", 0.05)
    jobs.start("1-0", JobSpec("trap '' TERM; echo ready; while :; do sleep 0.01; done"))
    wait_until(lambda: (out := jobs.output("1-0")) is not None and "ready" in out.text, "the trap is set")

    assert jobs.stop()

    assert [(end.how, end.signal) for end in jobs.ended()] == [("stopped", signal.SIGKILL)]


def test_a_signal_goes_to_the_shell_and_its_group(jobs: Jobs) -> None:
    jobs.start("1-0", JobSpec("trap 'echo heard; exit 4' USR1; echo ready; while :; do sleep 0.01; done"))
    wait_until(lambda: (out := jobs.output("1-0")) is not None and "ready" in out.text, "the trap is set")

    assert jobs.signal("1-0", signal.SIGUSR1)

    (end,) = wait_ends(jobs, 1)
    assert (end.how, end.exit_code) == ("exited", 4)
    assert end.output.text.endswith("heard\n")
    assert not jobs.signal("1-0", signal.SIGUSR1), "it has ended"
    assert not jobs.signal("never there", signal.SIGUSR1)
    with pytest.raises(BadInput, match="number"):
        jobs.signal("1-0", 999)


def test_a_job_gets_no_descriptor_of_its_worker(jobs: Jobs, tmp_path: Path) -> None:
    """Not even one that is inheritable: a database's socket in a job would be a second writer's."""
    numbers = "n=0; while [ $n -lt 300 ]; do [ -e /proc/$$/fd/$n ] && echo $n; n=$((n+1)); done"
    names = "for n in 0 1 2; do readlink /proc/$$/fd/$n; done"
    with socket.socket() as ours, (tmp_path / "ours").open("w") as file:
        os.set_inheritable(ours.fileno(), True)
        os.set_inheritable(file.fileno(), True)

        end = end_of(jobs, f"{numbers}; {names}")
        jobs.start("1-1", JobSpec("sleep 600"))
        (guard,) = children_named(os.getpid(), "noeta-guard")
        watchers = {guard, *children_named(guard, "noeta-job")}
        held = {str(entry.readlink()) for pid in watchers for entry in Path(f"/proc/{pid}/fd").iterdir()}

    *there, zero, one, two = end.output.text.splitlines()
    assert (there, zero) == (["0", "1", "2"], "/dev/null")
    assert one.startswith("pipe:") and two == one
    assert str(tmp_path / "ours") not in held
    assert len(watchers) == 2 and sum(name.startswith("socket:") for name in held) == 1


def test_supervisors_do_not_hold_each_others_pipes(jobs: Jobs) -> None:
    """Or the end of the guard would not be heard of as long as one of them lives."""
    for number in range(4):
        jobs.start(f"1-{number}", JobSpec("sleep 600"))
    (guard,) = children_named(os.getpid(), "noeta-guard")
    held = [
        {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()} - {"/dev/null"}
        for pid in children_named(guard, "noeta-job")
    ]

    pipes = [{name for name in names if name.startswith("pipe:")} for names in held]
    assert len(pipes) == 4
    assert sum(map(len, pipes)) == len(set().union(*pipes))
    assert not any(name.startswith("socket:") for names in held for name in names)


def test_environment_and_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's, and what the job names besides; every byte of it."""
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OURS", "a\udcffb")  # a byte that is no text
    command = 'pwd -P; printf \'%s %s\' "$OURS" "$THEIRS" | od -An -tx1'
    spec = JobSpec(command, environment={"THEIRS": "ä"})

    with job_table() as (here, world):
        at_home = end_of(here.of(claim_held(world, LONG)), command, environment=spec.environment)
    with job_table(directory="inner", environment={"PATH": os.environ["PATH"], "OURS": "x"}) as (there, world):
        jobs = there.of(claim_held(world, LONG))
        elsewhere = end_of(jobs, command, environment=spec.environment)
        jobs.recorded(["1-0"])
        named = end_of(jobs, "pwd -P", directory="..")

    assert at_home.output.text == f"{tmp_path.resolve()}\n 61 ff 62 20 c3 a4\n"
    assert elsewhere.output.text == f"{tmp_path.resolve() / 'inner'}\n 78 20 c3 a4\n"
    assert named.output.text == f"{tmp_path.resolve()}\n"


WITHOUT = "nothing-but-a-test-may-see-this"


def test_what_opens_the_store_is_not_given_to_a_job_or_to_what_it_can_read_above_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The environment that a process began with can be read by its user."""
    for name in ("NOETA_STORE", "PGPASSWORD"):
        monkeypatch.setenv(name, WITHOUT)
    monkeypatch.setenv("OURS", "given")
    climb = (
        'p=$$; while read name </proc/$p/comm; echo "at $name"; tr "\\0" "\\n" </proc/$p/environ; '
        '[ "$name" != noeta-guard ]; do while read key value; do [ "$key" = PPid: ] && p=$value; done '
        "</proc/$p/status; done"
    )
    with job_table() as (mine, world):
        lines = end_of(mine.of(claim_held(world, LONG)), climb).output.text.splitlines()
    with job_table(environment={**os.environ}) as (mine, world):
        given = end_of(mine.of(claim_held(world, LONG)), "env")

    assert [line for line in lines if line.startswith("at ")] == ["at sh", "at noeta-job", "at noeta-guard"]
    assert lines.count("OURS=given") == 3
    assert not [line for line in lines if WITHOUT in line]
    assert given.output.text.count(WITHOUT) == 2, "who names the environment is the one to say what is in it"


def test_a_job_handles_signals_as_if_it_was_started_from_a_terminal(jobs: Jobs) -> None:
    """Nothing is ignored or blocked, as it is in the guard."""
    end = end_of(jobs, "grep -E '^Sig(Blk|Ign)' /proc/self/status")

    _, blocked, _, ignored = end.output.text.split()
    assert int(blocked, 16) == 0
    assert int(ignored, 16) & 0x7FFF_FFFF == 0  # glibc keeps two of its own ignored, above these


def test_each_claim_has_its_own_jobs_and_always_the_same() -> None:
    """Also two claims of one task in one process. Keeps: one-writer."""
    with job_table() as (mine, world):
        first, second = claim_held(world, LONG, token="a"), claim_held(world, LONG, token="b")
        mine.of(first).start("1-0", JobSpec("sleep 600"))
        mine.of(second).start("1-0", JobSpec("sleep 600"))

        assert mine.of(first).stop()

        assert (sorted(mine.of(first).live()), sorted(mine.of(second).live())) == ([], ["1-0"])
        assert [end.how for end in mine.of(first).ended()] == ["stopped"], "though nobody held it meanwhile"
        mine.lost(second)
        wait_until(lambda: not mine.of(second).live(), "the other claim's jobs are killed")


def test_nothing_is_started_for_a_lost_claim_or_by_a_closed_table() -> None:
    with job_table() as (mine, world):
        lost, cut, open_one = (claim_held(world, LONG, token=token) for token in "abc")
        jobs = [mine.of(held) for held in (lost, cut, open_one)]
        mine.lost(lost)
        cut.cut("its lease is over")
        for one in jobs[:2]:
            one.start("1-0", JobSpec("true"))
        jobs[2].start("1-0", JobSpec("sleep 600"))
        mine.close()
        jobs[2].start("1-1", JobSpec("true"))

        assert [[(end.how, end.detail) for end in one.ended()] for one in jobs] == [
            [("not_started", "its claim is lost")],
            [("not_started", "its claim is lost")],
            [("killed", "killed because its worker closed"), ("not_started", "this worker closes")],
        ]


def test_a_claim_whose_ends_are_all_recorded_is_forgotten() -> None:
    with job_table() as (mine, world):
        held, lost = claim_held(world, LONG, token="a"), claim_held(world, LONG, token="b")
        for one in (held, lost):
            mine.of(one).start("1-0", JobSpec("true"))
            wait_ends(mine.of(one), 1)
        mine.of(held).recorded(["1-0"])
        mine.lost(lost)

        gc.collect()
        assert (len(mine._claims), len(mine._untold)) == (0, 0)


def test_a_table_without_jobs_has_no_guard() -> None:
    with job_table() as (mine, world):
        held = claim_held(world, LONG)
        assert mine.of(held).stop()
        mine.extended(held)
        mine.lost(held)

        assert children_named(os.getpid(), "noeta-guard") == set()


def test_what_runs_when_the_activity_fails_is_killed_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of ours must not leave a job that nobody hears of."""
    world = ThreadWorld(seed=1)
    mine = JobTable(world)
    jobs = mine.of(claim_held(world, LONG))
    jobs.start("1-0", JobSpec("sleep 600", environment={MARK: "activity-fails"}))
    assert alive("activity-fails")

    def fail(*args: object) -> None:
        raise OSError("planted")

    monkeypatch.setattr(minder.Minder, "_send", fail)
    mine.extended(claim_held(world, LONG))

    (end,) = wait_ends(jobs, 1)
    assert (end.how, end.detail) == ("killed", minder.WHY[supervisor.GUARD_GONE.decode()])
    assert not alive("activity-fails"), "its end was told before it was one"
    jobs.start("1-1", JobSpec("true"))
    assert jobs.ended()[1].how == "not_started"
    mine.close()
