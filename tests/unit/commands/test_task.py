"""`noeta task ID`: the story of one task, of a live store and of what a run left behind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from invariants.evidence import Held
from noeta.backends.open import open_store
from noeta.backends.stores.sqlite import SqliteStore
from noeta.chaos.evidence_dir import FAULTS, RunDir
from noeta.chaos.nemesis import FaultLine
from noeta.cli import BAD_USAGE, FAILED
from noeta.core.store import NewTask, Store
from tests.actors import Deaths, Effect, Model, asks, die, drive, engine, says
from tests.cluster.runs import AT, SECOND, TASK, hand_made
from tests.unit.commands.shell import Shell
from tests.unit.runtime.machines import asks_person, calls, helper_agent, main_agent

LEASE = 60.0
DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?Z")


@contextmanager
def at(shell: Shell, seconds: float) -> Iterator[Store]:
    """The shell's store, so long after 2023-11-14 22:13:20 UTC."""
    store = SqliteStore(shell.store.removeprefix("sqlite:"), clock=lambda: 1_700_000_000.0 + seconds)
    try:
        yield store
    finally:
        store.close()


def a_killed_worker(shell: Shell) -> None:
    """The tool of one worker kills it; another one takes the task over once the lease is over."""
    agent = engine(Model((asks("pay"), says("bye"))), Effect("pay", [], retry_safe=True, after=Deaths(1)))
    with at(shell, 0.0) as store:
        store.create(NewTask("t", "main", "pay the bill"))
    for worker, seconds in (("w1", 2.0), ("w2", 2.0 + LEASE + 8.0)):
        with at(shell, seconds) as store:
            (claim,) = store.claim(worker, None, LEASE).claims
            drive(store, claim, agent)


def story(shell: Shell, *arguments: str) -> list[str]:
    """The lines of a story that must be told."""
    said = shell.run("task", *arguments)
    assert (said.code, said.err) == (0, ""), said
    return said.lines


def test_a_task_of_a_store_that_lived_through_a_kill(shell: Shell) -> None:
    a_killed_worker(shell)

    assert story(shell, "t") == [
        "t: completed",
        "agent main, one-shot (it ends with its answer), epoch 2 (each claim of a worker raises it)",
        'goal: "pay the bill"',
        "log: 10 entries in 1 min 10 s; times are since 2023-11-14 22:13:20.000Z",
        "",
        "epoch 0, before any worker",
        '     +0.000   1  created: agent main, one-shot: "pay the bill"',
        "    ~ waited 2.0 s for a worker",
        "epoch 1, held by some worker",
        "     +2.000   2  asked the model",
        '     +2.000   3  the model asked for pay (call 3-0) with {"n": 0}',
        "     +2.000   4  started pay (call 3-0)",
        "    ~ silent for 1 min 08 s",
        "    ~ pay (call 3-0) was cut short: started again (start 2)",
        "epoch 2, held by some worker",
        "  +1:10.000   5  gave up what was half done from seq 4 on: the task is taken up again",
        "  +1:10.000   6  started pay (call 3-0) again, start 2",
        '  +1:10.000   7  pay (call 3-0) finished: "pay ran as start 2"',
        "  +1:10.000   8  asked the model",
        '  +1:10.000   9  the model replied: "bye"',
        '  +1:10.000  10  completed: "bye"',
    ]


def test_the_holder_of_the_present_claim_is_named(shell: Shell) -> None:
    agent = engine(Model((asks("pay"),)), Effect("pay", [], after=die))
    with at(shell, 0.0) as store:
        store.create(NewTask("t", "main", "go"))
        drive(store, store.claim("w1", None, LEASE).claims[0], agent)
    with at(shell, LEASE + 8.0) as store:
        store.claim("w2", None, LEASE)
    lines = story(shell, "t")

    assert lines[0] == "t: running, but the lease of w2 ended 2023-11-14 22:15:28.000Z: any worker may take it"
    assert lines[-4:] == [
        "  +0.000  4  started pay (call 3-0)",
        "    ~ nothing was written since",
        "    ~ pay (call 3-0) was cut short: nobody has taken it up yet",
        "epoch 2, held by w2, wrote nothing",
    ]


def test_a_task_that_is_being_run_says_by_whom(shell: Shell) -> None:
    shell.create("t")
    store = open_store(shell.store)
    store.claim("w1", None, LEASE)
    store.close()

    assert DATE.sub("DATE", story(shell, "t")[0]) == "t: running, held by w1 until DATE, or longer"


def test_children_and_what_is_not_taken_yet_stand_around_the_story(shell: Shell) -> None:
    shell.create("t", "lead")
    both = calls(("AgentGroup", {"members": [{"agent": "quick", "prompt": "a"}, {"agent": "asker", "prompt": "b"}]}))
    shell.work(lead=main_agent(both), quick=helper_agent("ready"), asker=main_agent(asks_person("Go on?")))
    shell.done("say", "t", "hello\x1b[2J")
    lines = [DATE.sub("DATE", line) for line in story(shell, "t")]
    child = [DATE.sub("DATE", line) for line in story(shell, "t.3-0.2")]

    assert lines[0] == "t: suspended, waits for 1 of 2 tasks of group t.3-0"
    assert lines[3:5] == [
        "delegated to t.3-0.1: completed",
        "delegated to t.3-0.2: waits for an answer to question:t.3-0.2:3-0",
    ]
    assert lines[-2:] == [
        'not taken yet: item 1: task t.3-0.1 completed: "ready"',
        'not taken yet: item 2: the message "hello\\u001b[2J"',
    ]
    assert child[3] == "for task t, in group t.3-0; root t, depth 1"


def test_as_json_the_story_has_events_whole_and_spans_in_seconds(shell: Shell) -> None:
    a_killed_worker(shell)
    told = json.loads("\n".join(story(shell, "t", "--json")))
    parts = told["story"]

    assert (told["task"], told["status"], told["epoch"]) == ("t", "terminal", 2)
    assert [part["seq"] for part in parts if part["part"] == "entry"] == list(range(1, 11))
    assert parts[1]["event"]["goal"] == "pay the bill"
    assert {"part": "claim", "epoch": 2, "words": "held by some worker"} in parts
    assert {
        "part": "between",
        "silent": 68.0,
        "words": "silent for 1 min 08 s",
        "why": ["pay (call 3-0) was cut short: started again (start 2)"],
    } in parts


def test_the_width_is_kept_and_nothing_is_coloured_where_no_terminal_is(shell: Shell) -> None:
    a_killed_worker(shell)
    lines = story(shell, "t", "--width", "50")

    assert max(map(len, lines)) <= 50
    assert len(lines) > 21
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize(("options", "is_coloured"), [((), True), (("--no-color",), False)])
def test_on_a_terminal_the_story_is_coloured(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], is_coloured: bool
) -> None:
    a_killed_worker(shell)
    monkeypatch.setattr("noeta.commands.task.is_terminal", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain = story(shell, "t", "--no-color", "--width", "200")
    lines = story(shell, "t", "--width", "200", *options)

    assert ("\x1b[" in "".join(lines)) is is_coloured
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in lines] == plain


def test_a_run_knows_who_held_it_and_what_struck(shell: Shell, tmp_path: Path) -> None:
    made = hand_made(tmp_path)
    struck(
        made,
        FaultLine(at=AT + 4 * SECOND + 1, kind="kill", process="w1#1", held=(Held(TASK, 1), Held("other", 1))),
        FaultLine(
            at=AT + 6 * SECOND + 1,
            kind="pause",
            process="w2#1",
            ended_at=AT + 8 * SECOND + 1,
            held=(Held(TASK, 2),),
        ),
        FaultLine(at=AT + 5 * SECOND + 2, kind="kill", process="w3#1", held=(Held("other", 1),)),
        FaultLine(at=AT + 7 * SECOND + 1, kind="db_kill", process="server", ended_at=AT + 7 * SECOND + 2),
    )

    assert story(shell, TASK, "--run", str(made.root))[3:] == [
        "log: 9 entries in 8.0 s; times are since 2023-11-14 22:13:21.000Z",
        "",
        "epoch 0, before any worker",
        '  +0.000  1  created: agent scripted, one-shot: "go"',
        "    ~ waited 1.0 s for a worker",
        "epoch 1, held by w1-1 in process w1#1",
        "  +1.000  2  asked the model",
        "  +2.000  3  the model asked for recoverable (call 3-0) with {}",
        "  +3.000  4  started recoverable (call 3-0)",
        "  +3.000  !  w1#1, which held the task, was killed (SIGKILL)",
        "    ~ silent for 1.0 s",
        "    ~ recoverable (call 3-0) was cut short: its outcome was looked up",
        "epoch 2, held by w2-1 in process w2#1",
        "  +4.000  5  gave up what was half done from seq 4 on: the task is taken up again",
        '  +5.000  6  recoverable (call 3-0) was looked up: "done"',
        "  +5.000  !  w2#1, which held the task, was frozen (SIGSTOP)",
        "  +6.000  7  asked the model",
        "  +6.000  !  the database server was killed (SIGKILL)",
        "  +6.000  !  the database server is back, after 0.000 s",
        '  +7.000  8  the model replied: "bye"',
        "  +7.000  !  w2#1 goes on (SIGCONT), after 2.0 s",
        '  +8.000  9  completed: "bye"',
    ]


def struck(made: RunDir, *faults: FaultLine) -> None:
    """These faults and no others struck in this run."""
    made.path(FAULTS).write_bytes(b"".join(msgspec.json.encode(fault) + b"\n" for fault in faults))


def test_a_task_that_is_not_there_is_refused(shell: Shell, tmp_path: Path) -> None:
    shell.create("t")
    made = hand_made(tmp_path)
    of_store, of_run = shell.run("task", "u"), shell.run("task", "u", "--run", str(made.root))

    assert (of_store.code, of_run.code) == (FAILED, FAILED)
    assert "noeta tasks list" in of_store.refusal
    assert of_run.refusal == 'noeta: this run has no log of a task "u"; it has t1'


def test_where_there_is_nothing_to_read_is_bad_usage(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_run = shell.run("task", "t", "--run", str(tmp_path))
    monkeypatch.delenv("NOETA_STORE")
    of_nothing = shell.run("task", "t")

    assert (of_run.code, of_nothing.code) == (BAD_USAGE, BAD_USAGE)
    assert "run.json" in of_run.refusal
    assert "--store, --run, or NOETA_STORE" in of_nothing.refusal
