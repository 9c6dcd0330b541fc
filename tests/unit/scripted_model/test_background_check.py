"""Scripts that would never come to rest, or whose play nobody could foretell, are refused."""

from __future__ import annotations

import pytest

from scripted_model.script import (
    Agent,
    Arguments,
    Asked,
    BadScript,
    Call,
    Cron,
    Gating,
    Question,
    ReadJob,
    Say,
    Script,
    Shell,
    Step,
    StopCron,
    StopJob,
    Tools,
    Turn,
    asking,
    check,
)

ENDLESS = Shell(None, 1.0)
ENDS = Shell(2, 1.0)
MINUTELY = Cron("* * * * *", "look around")


def ask(tag: str, asked: Asked) -> Tools:
    return Tools((asking(tag, asked),))


def call(tag: str, tool: str = "plain", gate: Gating | None = None, dies: int = 0) -> Call:
    return Call(tool, Arguments(tag, gate=gate, dies_through_start=dies))


def script(*steps: Step, interactive: bool = False, parks: bool = False) -> Script:
    return Script("t", "test", (Turn((*steps, Say())),), interactive, parks=parks)


def below(*steps: Step, parks: bool = False) -> Script:
    child = Script("t/1", "child", (Turn((*steps, Say())),), parks=parks)
    return script(ask("a", Agent(child)))


@pytest.mark.parametrize(
    ("one", "problem"),
    [
        (script(ask("s", Shell(0, 1.0))), "from 1 to 10000 lines"),
        (script(ask("s", Shell(10_001, 1.0))), "from 1 to 10000 lines"),
        (script(ask("s", Shell(1, 0.0))), "every_seconds: above 0"),
        (script(ask("s", Shell(1, float("nan")))), "every_seconds: from 0"),
        (script(ask("s", Shell(1, 1.0, exit_code=256))), "from 0 to 255"),
        (script(ask("it's", ENDS)), "stands in its command"),
        (script(ask("s", ENDLESS), interactive=True), "s goes on for ever"),
        (script(ask("c", MINUTELY), interactive=True), "c goes on for ever"),
        (script(ask("c", MINUTELY), ask("d", StopCron("c"))), "only a task that rests between turns"),
        (below(ask("c", MINUTELY)), "only a task that rests between turns"),
        (script(ask("c", Cron("61 * * * *", "p")), ask("d", StopCron("c")), interactive=True), "expression"),
        (script(ask("c", Cron("* * * * *", "p", "Atlantis")), ask("d", StopCron("c")), interactive=True), "zone"),
        (script(ask("c", Cron("* * * * *", "")), ask("d", StopCron("c")), interactive=True), "not empty"),
        (script(ask("c", Cron("* * * * *", "turn 2: x")), ask("d", StopCron("c")), interactive=True), "starts no turn"),
        (script(ask("r", ReadJob("s"))), "about a Shell of an earlier reply"),
        (script(ask("s", ENDS), ask("d", StopCron("s"))), "about a Cron of an earlier reply"),
        (script(Tools((asking("s", ENDS), asking("r", ReadJob("s"))))), "about a Shell of an earlier reply"),
        (script(Tools((call("p"),)), ask("r", StopJob("p"))), "about a Shell of an earlier reply"),
        (script(Tools((Call("plain", Arguments("p", rewritten=True)),))), "a gate rewrites a call"),
        (script(Tools((call("k", "killer", "deny", 1),))), "never starts kills nobody"),
        (script(Tools((call("k", "killer", "refuse", 1),))), "never starts kills nobody"),
        (script(Tools((call("p", gate="approve"), call("q", gate="refuse")))), "people say the same"),
        (below(Tools((call("p", gate="refuse"),))), "whoever is asked by a sub-agent approves"),
        (script(interactive=True, parks=True), "only a one-shot task"),
        (below(parks=True), "only a one-shot task"),
        (script(Tools((call("p"),)), ask("q", Question("?")), parks=True), "the first thing"),
        (script(Tools((call("p"), call("q", gate="approve"))), parks=True), "the first thing"),
        (script(Tools((call("k", "killer", dies=1), call("p"))), parks=True), "the last of its reply"),
    ],
)
def test_it_is_refused_by_its_part_and_rule(one: Script, problem: str) -> None:
    with pytest.raises(BadScript, match=problem):
        check(one)


@pytest.mark.parametrize(
    "one",
    [
        script(ask("s", ENDLESS)),
        script(ask("s", ENDS), interactive=True),
        script(ask("s", ENDLESS), ask("r", ReadJob("s")), ask("k", StopJob("s")), interactive=True),
        script(ask("c", MINUTELY), ask("d", StopCron("c")), interactive=True),
        below(ask("s", ENDLESS)),
        below(Tools((call("p", gate="approve"), call("q", gate="approve_rewritten"), call("r", gate="deny")))),
        script(Tools((call("p", gate="approve"),)), Tools((call("k", "killer", dies=1),)), parks=True),
        script(Tools((call("p"), call("k", "killer_retry_safe", dies=3))), parks=True),
    ],
)
def test_it_can_be_played(one: Script) -> None:
    check(one)
