"""`noeta tasks list | show`: what a person and a machine read of tasks."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest

from noeta.backends.open import open_store
from noeta.backends.stores.pg_migrate import migrate
from noeta.cli import FAILED
from noeta.story.text import TEXT_CHARS_MAX, instant, quoted
from noeta.story.words import standing
from tests.unit.commands.shell import Shell
from tests.unit.runtime.machines import (
    asks_event,
    asks_person,
    asks_timer,
    calls,
    delegates,
    helper_agent,
    main_agent,
)

TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?Z")


def masked(lines: list[str]) -> list[str]:
    return [TIME.sub("TIME", line) for line in lines]


def a_tree(shell: Shell) -> None:
    """A task that waits for two of a group, one of which has delegated again, and has one in the background."""
    shell.create("t", "lead")
    both = calls(
        ("Agent", {"agent": "watch", "prompt": "watch", "background": True}),
        ("AgentGroup", {"members": [{"agent": "quick", "prompt": "a"}, {"agent": "main", "prompt": "b"}]}),
    )
    shell.work(
        lead=main_agent(both),
        watch=main_agent(asks_event("late")),
        quick=helper_agent("ready"),
        main=main_agent(delegates("asker", "ask")),
        asker=main_agent(asks_person("Go on?")),
    )


def test_the_list_says_what_every_task_waits_for(shell: Shell) -> None:
    a_tree(shell)

    assert masked(shell.done("list")) == [
        "ID             STATUS     EPOCH  SINCE                 PARENT   WAITS FOR",
        "t              suspended  1      TIME  -        1 of 2 tasks of group t.3-1",
        "t.3-0.1        suspended  1      TIME  t        the event late",
        "t.3-1.1        terminal   1      TIME  t        nothing: it completed",
        "t.3-1.2        suspended  1      TIME  t        the task t.3-1.2.3-0.1",
        "t.3-1.2.3-0.1  suspended  1      TIME  t.3-1.2  an answer to question:t.3-1.2.3-0.1:3-0",
        "5 tasks: 4 suspended, 1 terminal",
    ]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--status", "terminal"], ["t.3-1.1"]),
        (["--status", "pending"], []),
        (["--queue", "default", "--limit", "1"], ["t"]),
        (["--queue", "other"], []),
        (["--waiting", "any"], ["t", "t.3-0.1", "t.3-1.2", "t.3-1.2.3-0.1"]),
        (["--waiting", "answer"], ["t.3-1.2.3-0.1"]),
        (["--waiting", "message"], []),
        (["--waiting", "event"], ["t.3-0.1"]),
        (["--waiting", "timer"], []),
        (["--waiting", "tasks", "--after", "t"], ["t.3-1.2"]),
    ],
)
def test_the_list_is_filtered(shell: Shell, options: list[str], ids: list[str]) -> None:
    a_tree(shell)

    assert [task["id"] for task in shell.json("list", *options)["tasks"]] == ids


def test_waits_for_people_and_timers_are_told_apart(shell: Shell) -> None:
    shell.create("chat", "quick", "--interactive")
    shell.create("nap", "main")
    shell.work(quick=helper_agent("hello"), main=main_agent(asks_timer(86_400)))

    assert [task["id"] for task in shell.json("list", "--waiting", "message")["tasks"]] == ["chat"]
    (nap,) = shell.json("list", "--waiting", "timer")["tasks"]
    assert re.fullmatch(r"a timer, at \S+ \S+Z", nap["waits_for"])
    assert nap["wake_on"]["type"] == "TimerFired"


def test_pages_meet_and_their_last_line_says_how_to_go_on(shell: Shell) -> None:
    for n in range(5):
        shell.create(f"t{n}")
    first = shell.done("list", "--limit", "2")
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = shell.json("list", "--limit", "2", "--after", after)
        seen += [task["id"] for task in page["tasks"]]
        after = page["next_after"]

    assert first[-1] == "2 tasks: 2 pending; there are more: add --after t1"
    assert seen == [f"t{n}" for n in range(5)]
    assert shell.done("list", "--limit", "5")[-1] == "5 tasks: 5 pending"


def test_more_tasks_than_one_fetch_are_searched(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noeta.commands.tasks.listing.FETCH", 2)
    for n in range(4):
        shell.create(f"t{n}", "quick")
    shell.create("t4", "quick", "--interactive")
    shell.work(quick=helper_agent())

    assert [task["id"] for task in shell.json("list", "--waiting", "message")["tasks"]] == ["t4"]


def test_show_tells_the_whole_story(shell: Shell) -> None:
    a_tree(shell)
    shell.done("say", "t", "how is it going?")

    assert masked(shell.done("show", "t")) == [
        "t: suspended, agent lead, one-shot, queue default, epoch 1",
        "waits for: 1 of 2 tasks of group t.3-1, since TIME",
        "log, 8 entries:",
        '  1  e0  TIME  created: agent lead, one-shot: "goal of t"',
        "  2  e1  TIME  asked the model",
        (
            "  3  e1  TIME  the model asked for "
            'Agent (call 3-0) with {"agent": "watch", "prompt": "watch", "background": true}; '
            "AgentGroup (call 3-1) with "
            '{"members": [{"agent": "quick", "prompt": "a"}, {"agent": "main", "prompt": "b"}]}'
        ),
        "  4  e1  TIME  started Agent (call 3-0)",
        (
            "  5  e1  TIME  Agent (call 3-0) finished: "
            '"Call 3-0 works in the background. You will be told when it has ended."; born: t.3-0.1'
        ),
        "  6  e1  TIME  started AgentGroup (call 3-1)",
        "  7  e1  TIME  AgentGroup (call 3-1) waits for 2 tasks of group t.3-1; born: t.3-1.1, t.3-1.2",
        "  8  e1  TIME  rests, waiting for 2 tasks of group t.3-1",
        "unread, 2:",
        '  item 1  TIME  task t.3-1.1 completed: "ready"',
        '  item 2  TIME  the message "how is it going?"',
        "below it, 4 tasks:",
        "  t.3-0.1 (in the background)  suspended, waits for the event late",
        "  t.3-1.1  terminal, it completed",
        "  t.3-1.2  suspended, waits for the task t.3-1.2.3-0.1",
        "    t.3-1.2.3-0.1  suspended, waits for an answer to question:t.3-1.2.3-0.1:3-0",
        "end it: noeta tasks cancel t",
    ]


def test_show_asks_the_question_and_says_how_to_answer(shell: Shell) -> None:
    a_tree(shell)
    shown = masked(shell.done("show", "t.3-1.2.3-0.1"))

    assert shown[2:4] == [
        "parent: t.3-1.2, root: t, depth 2",
        'asks: "Go on?" (handle question:t.3-1.2.3-0.1:3-0)',
    ]
    assert shown[-1] == "answer it: noeta tasks answer t.3-1.2.3-0.1 TEXT"


def test_show_as_json_has_texts_whole_and_events_as_stored(shell: Shell) -> None:
    text = "long " * 100
    shell.create("t", "quick", "--interactive")
    shell.work(quick=helper_agent(text))
    whole = shell.json("show", "t")

    assert whole["log"][-1]["event"]["answer"] == text
    assert (whole["log"][-1]["seq"], whole["log"][-1]["epoch"]) == (4, 1)
    assert "token" not in whole["task"], "a claim's token is its worker's"
    assert f"({len(text) - TEXT_CHARS_MAX} more characters)" in "\n".join(shell.done("show", "t"))


def test_a_log_longer_than_a_page_is_shown_whole(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noeta.commands.tasks.looking.PAGE", 2)
    a_tree(shell)
    shell.create("u")  # stands behind the tree in the order of ids
    shell.done("say", "t", "hello")
    whole = shell.json("show", "t")

    assert [entry["seq"] for entry in whole["log"]] == list(range(1, 9))
    assert len(whole["unread"]) == 2
    assert [child["id"] for child in whole["children"]] == ["t.3-0.1", "t.3-1.1", "t.3-1.2", "t.3-1.2.3-0.1"]


def test_what_a_terminal_would_obey_is_escaped() -> None:
    assert quoted("a\x1b[2Jb\nc\x9bd\u202ee") == '"a\\u001b[2Jb\\nc\\u009bd\\u202ee"'


def test_an_instant_that_no_calendar_has_is_told_in_seconds() -> None:
    assert instant(1_700_000_000_123_456, digits=3) == "2023-11-14 22:13:20.123Z"
    assert instant(253_402_300_800_000_000) == "253402300800 s from 1970"


def test_a_running_task_says_who_runs_it_and_a_lapsed_one_who_did(shell: Shell) -> None:
    shell.create()
    store = open_store(shell.store)
    store.claim("w1", None, 60.0)
    row = store.task("t")
    store.close()
    assert row.lease_until is not None

    assert shell.json("list")["tasks"][0]["waits_for"] == "nothing: w1 runs it"
    assert standing(row, None, row.lease_until).startswith("another worker: the lease of w1 ended ")


def test_the_same_is_read_of_postgres(
    pg_schema: tuple[str, str], capsys: pytest.CaptureFixture[str], shell: Shell
) -> None:
    dsn, schema = pg_schema
    migrate(dsn, schema)
    server = Shell(dsn, capsys, schema)
    for one in (server, shell):
        a_tree(one)
        one.done("answer", "t.3-1.2.3-0.1", "yes")
        one.done("event", "t.3-0.1", "late")
        one.done("cancel", "t", "--reason", "enough")

    assert masked(server.done("list")) == masked(shell.done("list"))
    assert masked(server.done("show", "t")) == masked(shell.done("show", "t"))


def test_a_schema_that_is_not_there_is_named(pg_schema: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    dsn, schema = pg_schema
    said = Shell(dsn, capsys, schema).tasks("list")

    assert said.code == 3
    assert "noeta migrate" in said.refusal


def test_an_entry_of_a_newer_version_is_named_and_the_list_still_lists(shell: Shell) -> None:
    shell.create("new")
    shell.create("t")
    with closing(sqlite3.connect(shell.store.removeprefix("sqlite:"))) as file, file:
        file.execute("UPDATE entry SET body = '{\"type\":\"TaskDreamt\"}' WHERE task_id = 'new'")
    said = shell.tasks("show", "new")

    assert said.code == FAILED
    assert "TaskDreamt" in said.refusal
    assert said.refusal.endswith("; use the newer version that wrote it")
    assert [(task["id"], task["since"] is None) for task in shell.json("list")["tasks"]] == [
        ("new", True),
        ("t", False),
    ]
