"""Where a connection is cut, and what the server's answer says of the commit: frames in, frames and a record out."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

import noeta
from noeta.chaos.proxy import Cut, CutLine, Outcome, read_cuts, sum_of
from noeta.chaos.proxy.answer import WROTE, WROTE_NOTHING
from noeta.chaos.proxy.cuts import Cuts, Who
from noeta.chaos.proxy.frames import SSL_CODE
from noeta.chaos.proxy.link import Link, Side
from noeta.chaos.proxy.verbs import verb_of
from noeta.chaos.schedule import Kind
from tests.unit.chaos import wire_bytes as wire

BEFORE, AFTER = Kind.CUT_BEFORE_COMMIT, Kind.CUT_AFTER_COMMIT


class Wired:
    """A link whose session has begun and knows the store's statements."""

    def __init__(self, *cuts: Cut, name: str = "noeta w1#1") -> None:
        self.lines: list[CutLine] = []
        self.cuts = Cuts()
        ticks = itertools.count(1)
        self.link = Link(self.cuts, self.lines.append, lambda: float(next(ticks)))
        self.client(wire.start(name))
        self.server(wire.frame(b"R", b"\0\0\0\0") + wire.ready())
        for statement in (("append", wire.APPEND), ("read", wire.READ)):
            self.client(wire.parse(*statement) + wire.SYNC)
            self.server(wire.frame(b"1") + wire.ready())
        self.take()
        for cut in cuts:
            self.cuts.arm(cut)

    def client(self, data: bytes) -> None:
        self.link.received(Side.CLIENT, data)

    def server(self, data: bytes) -> None:
        self.link.received(Side.SERVER, data)

    def take(self) -> tuple[bytes, bytes]:
        """What goes to the client and to the server."""
        found = bytes(self.link.pending[Side.CLIENT]), bytes(self.link.pending[Side.SERVER])
        for pending in self.link.pending.values():
            pending.clear()
        return found

    @property
    def line(self) -> CutLine:
        (line,) = self.lines
        return line


def cut(kind: Kind, verb: str = "append", n: int = 1, worker: str | None = "w1", **more: object) -> Cut:
    return Cut("c", kind, verb, n, worker, **more)  # type: ignore[arg-type]


def test_without_a_cut_every_byte_passes_both_ways() -> None:
    wired = Wired()
    for asked, answered in (
        (wire.run("append", b"t1"), wire.answer("landed")),
        (wire.query("SELECT 1"), wire.complete() + wire.ready()),
    ):
        wired.client(asked)
        wired.server(answered)

        assert wired.take() == (answered, asked)
    assert not wired.lines


def test_encryption_is_refused_by_the_proxy_itself() -> None:
    link = Link(Cuts(), lambda line: None)
    link.received(Side.CLIENT, wire.code(SSL_CODE))

    assert bytes(link.pending[Side.CLIENT]) == b"N"
    assert not link.pending[Side.SERVER]
    link.received(Side.CLIENT, wire.start())
    assert link.pending[Side.SERVER] == wire.start()


@pytest.mark.parametrize("place", range(len(wire.run("append", b"t1")) + 1))
def test_of_a_commit_that_is_cut_before_it_nothing_reaches_the_server(place: int) -> None:
    wired = Wired(cut(BEFORE))
    asked = wire.run("append", b"t1")
    wired.client(asked[:place])
    wired.client(asked[place:])

    assert wired.take() == (b"", b"")
    assert wired.link.is_reset
    assert (wired.line.outcome, wired.line.why) == (Outcome.NOT_LANDED, "never sent to the server")
    assert (wired.line.process, wired.line.verb, wired.line.facts) == ("w1#1", "append", {"task": "t1"})
    assert wired.line.at < wired.line.ended_at


@pytest.mark.parametrize("place", range(len(wire.answer("landed")) + 1))
def test_of_a_commit_that_is_cut_after_it_nothing_reaches_the_client(place: int) -> None:
    wired = Wired(cut(AFTER))
    wired.client(wire.run("append", b"t1"))
    assert wired.take() == (b"", wire.run("append", b"t1"))
    answered = wire.answer("landed")
    wired.server(answered[:place])
    assert wired.link.is_reset == (place == len(answered))
    wired.server(answered[place:])

    assert wired.take() == (b"", b"")
    assert wired.link.is_reset
    assert wired.line.outcome is Outcome.LANDED
    assert wired.line.why == "CommandComplete 'SELECT 1' and ReadyForQuery 'I'; it answered 'landed'"


@pytest.mark.parametrize(
    ("answered", "outcome"),
    [
        (wire.answer("lost"), Outcome.NOT_LANDED),
        (wire.answer("moved_log"), Outcome.NOT_LANDED),
        (wire.answer("a word of next year"), Outcome.UNKNOWN),
        (wire.answer("lost", "landed"), Outcome.LANDED),
        (wire.answer("landed", status="T"), Outcome.NOT_LANDED),
        (wire.answer("[]", name="o_claims"), Outcome.NOT_LANDED),
        (wire.answer('[["t1",1]]', name="o_claims"), Outcome.LANDED),
        (wire.answer('[["lost"],["busy"]]', name="o_answers"), Outcome.NOT_LANDED),
        (wire.answer('[["lost"],["held",1,2,false]]', name="o_answers"), Outcome.LANDED),
        (wire.error("40001") + wire.ready(), Outcome.NOT_LANDED),
        # Of the extended protocol CommandComplete comes first and the commit, which may fail, afterwards.
        (wire.frame(b"2") + wire.complete() + wire.error("23505") + wire.ready(), Outcome.NOT_LANDED),
        (wire.frame(b"2") + wire.complete("ROLLBACK") + wire.ready(), Outcome.NOT_LANDED),
        (wire.ready(), Outcome.NOT_LANDED),
    ],
)
def test_the_outcome_is_the_servers_answer(answered: bytes, outcome: Outcome) -> None:
    wired = Wired(cut(AFTER))
    wired.client(wire.run("append", b"t1"))
    wired.server(answered)

    assert wired.line.outcome is outcome, wired.line.why
    assert wired.line.is_cut


@pytest.mark.parametrize(
    "come", [b"", wire.frame(b"2") + wire.columns("o_outcome") + wire.row("landed") + wire.complete()]
)
def test_a_server_that_is_gone_before_its_answer_is_whole_leaves_the_outcome_unknown(come: bytes) -> None:
    wired = Wired(cut(AFTER))
    wired.client(wire.run("append", b"t1"))
    wired.server(come)
    wired.link.ended(Side.SERVER)

    assert (wired.line.outcome, wired.line.is_cut) == (Outcome.UNKNOWN, True)
    assert wired.link.is_reset
    assert sum_of(wired.lines) == {"unknown": 1}


def test_a_client_that_is_gone_before_the_answer_was_not_cut_off() -> None:
    wired = Wired(cut(AFTER))
    wired.client(wire.run("append", b"t1"))
    wired.link.ended(Side.CLIENT)

    assert (wired.line.outcome, wired.line.is_cut) == (Outcome.UNKNOWN, False)
    assert sum_of(wired.lines) == {}


def test_in_a_pipeline_the_answers_before_the_cut_still_reach_the_client() -> None:
    wired = Wired(cut(AFTER))
    wired.client(wire.run("read", b"t1") + wire.run("append", b"t1") + wire.run("read", b"t2"))
    # What stands behind the commit is not sent: the connection was broken by then.
    assert wired.take() == (b"", wire.run("read", b"t1") + wire.run("append", b"t1"))
    read = wire.answer("t1", name="id")
    wired.server(read + wire.answer("landed"))

    assert wired.take() == (read, b"")
    assert wired.line.outcome is Outcome.LANDED


def test_of_several_statements_before_one_sync_the_right_one_is_read() -> None:
    wired = Wired(cut(AFTER, n=2))
    one = wire.bind("append", b"t1") + wire.DESCRIBE + wire.EXECUTE
    two = wire.bind("append", b"t2") + wire.DESCRIBE + wire.EXECUTE
    wired.client(one + two + wire.SYNC)
    assert wired.take() == (b"", one + two + wire.SYNC)
    first = wire.answer("landed")[: -len(wire.ready())]
    wired.server(first + wire.answer("lost"))

    assert (wired.line.outcome, wired.line.facts) == (Outcome.NOT_LANDED, {"task": "t2"})


def test_a_statement_whose_result_came_before_the_cut_does_not_count() -> None:
    wired = Wired(cut(AFTER, n=3))
    wired.client(wire.run("append", b"t0"))
    wired.server(wire.answer("landed"))
    wired.take()
    wired.client(wire.bind("append", b"t1") + wire.DESCRIBE + wire.EXECUTE + wire.FLUSH)
    first = wire.answer("lost")[: -len(wire.ready())]
    wired.server(first)
    wired.client(wire.run("append", b"t2"))
    wired.server(wire.answer("landed"))

    assert wired.take()[0] == first
    assert wired.line.outcome is Outcome.LANDED


@pytest.mark.parametrize("end", [wire.SYNC, wire.FLUSH, wire.bind("read", b"t"), wire.query("SELECT 1")])
def test_a_portal_that_is_not_executed_is_not_held_back(end: bytes) -> None:
    wired = Wired(cut(BEFORE))
    opened = wire.bind("append", b"t1") + wire.DESCRIBE
    wired.client(opened)
    assert wired.take() == (b"", b"")
    wired.client(end)

    assert wired.take() == (b"", opened + end)
    assert not wired.lines


def test_what_is_held_back_of_a_client_that_dies_is_sent_as_it_would_have_been() -> None:
    wired = Wired(cut(BEFORE))
    asked = wire.bind("append", b"t1") + wire.EXECUTE[:3]
    wired.client(asked)
    wired.link.ended(Side.CLIENT)

    assert wired.take() == (b"", asked)
    assert wired.link.is_over


def test_in_a_transaction_only_its_commit_is_cut() -> None:
    wired = Wired(cut(BEFORE, verb="commit"))
    wired.client(wire.query("BEGIN"))
    wired.server(wire.complete("BEGIN") + wire.ready("T"))
    wired.client(wire.run("append", b"t1"))
    wired.server(wire.answer("landed", status="T"))
    assert not wired.lines
    wired.take()
    wired.client(wire.query("COMMIT"))

    assert wired.line.verb == "commit"
    assert wired.take() == (b"", b"")


def test_a_simple_query_is_cut_like_any_other() -> None:
    wired = Wired(cut(AFTER))
    wired.client(wire.query(wire.APPEND.replace("$1", "'t1'")))
    wired.server(wire.answer("landed")[len(wire.frame(b"2")) :])

    assert wired.line.outcome is Outcome.LANDED


@pytest.mark.parametrize(
    ("one", "hit"),
    [
        (cut(BEFORE, n=2), 2),
        (cut(BEFORE, verb="commit"), 1),
        (cut(BEFORE, worker=None), 1),
        (cut(BEFORE, incarnation=1), 1),
        (cut(BEFORE, where={"task": "t3"}), 3),
        (cut(BEFORE, worker="w2"), None),
        (cut(BEFORE, incarnation=2), None),
        (cut(BEFORE, verb="claim"), None),
        (cut(BEFORE, n=4), None),
    ],
)
def test_a_cut_strikes_the_commit_that_its_anchor_names(one: Cut, hit: int | None) -> None:
    wired = Wired(one)
    for number in (1, 2, 3):
        if not wired.link.is_reset:
            wired.client(wire.run("append", f"t{number}".encode()))
            wired.server(wire.answer("landed"))

    assert [line.facts["task"] for line in wired.lines] == ([] if hit is None else [f"t{hit}"])


def test_a_new_process_counts_anew_and_of_two_cuts_the_second_waits() -> None:
    cuts = Cuts()
    for id in ("a", "b"):
        cuts.arm(Cut(id, BEFORE, "append", 2, "w1"))
    first, second = Who.of("noeta w1#1"), Who.of("noeta w1#2")

    assert cuts.passing(first, "append", {}) is None
    assert cuts.passing(second, "append", {}) is None
    hits = [cuts.passing(second, "append", {}) for _ in range(3)]
    assert [hit and hit.id for hit in hits] == ["a", "b", None]
    assert not cuts.may_hit(first)


def test_nothing_strikes_once_all_is_called_off_and_a_half_sent_commit_goes_on() -> None:
    wired = Wired(cut(AFTER))
    wired.client(wire.bind("append", b"t1") + wire.EXECUTE)
    assert wired.link.is_listening
    wired.cuts.disarm_all()
    wired.link.call_off()
    wired.client(wire.SYNC)
    wired.server(wire.answer("landed"))

    assert wired.take() == (wire.answer("landed"), wire.bind("append", b"t1") + wire.EXECUTE + wire.SYNC)
    assert not wired.lines


def test_every_statement_of_the_store_has_its_verb() -> None:
    folder = Path(noeta.__file__).parent / "backends" / "stores" / "sql" / "postgres"
    text = (folder / "statements.sql").read_text().replace("{schema}", '"a ""b"""')
    statements = dict(re.findall(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", text, re.MULTILINE | re.DOTALL))
    verbs = {name: verb_of(re.sub(r"--.*", "", body)) for name, body in statements.items()}

    assert {"append", "claim", "create", "renew", "release", "fail", "post"} <= verbs.keys()
    for name, verb in verbs.items():
        writes = re.search(r"\.\w+_\d+\(", statements[name]) is not None
        assert (verb is not None) == writes, name
        assert verb is None or name.startswith(verb), name


def test_every_outcome_that_a_function_of_the_store_answers_is_known() -> None:
    folder = Path(noeta.__file__).parent / "backends" / "stores" / "sql" / "postgres"
    text = "\n".join(path.read_text() for path in sorted(folder.glob("0*.sql")))
    said = {
        word for words in re.findall(r"o_outcome := (.*?);", text, re.DOTALL) for word in re.findall(r"'(\w+)'", words)
    }
    said |= {"repeat", "other"}  # create_1 selects them

    assert said == WROTE | WROTE_NOTHING
    assert not WROTE & WROTE_NOTHING


def test_a_torn_line_of_the_record_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "cuts.jsonl"
    assert read_cuts(path) == ()
    wired = Wired(cut(BEFORE))
    wired.client(wire.run("append", b"t1"))
    import msgspec

    whole = msgspec.json.encode(wired.line)
    path.write_bytes(whole + b"\n" + whole[:20])

    assert read_cuts(path) == (wired.line,)
    assert sum_of(read_cuts(path)) == {"not-landed": 1}
