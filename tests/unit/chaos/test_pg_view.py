"""What the harness reads past the store says how far its inbox goes."""

from __future__ import annotations

from typing import Any

import pytest

from invariants import LAWS_BY_KEY, LogEntry, RunFacts, Sent, check_all, gather
from noeta.backends.stores.memory import MemoryStore
from noeta.chaos.pg_view import PgView
from noeta.core import limits
from noeta.core.ids import sha256_text
from noeta.core.store import NewTask
from noeta.core.wake import HumanResponseReceived


def test_an_inbox_longer_than_a_page_is_no_lost_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMMIT_PARTS_MAX", 3)
    store = MemoryStore(lambda: 1.0)
    store.create(NewTask("t", "agent", "goal"))
    posts = [store.post("t", HumanResponseReceived(text=str(n)), f"k{n}") for n in range(5)]
    page = store.read("t")
    view = PgView("", "noeta")

    def ask(statement: str, values: list[Any]) -> list[Any]:
        return [[2_000_000]]

    monkeypatch.setattr(view, "_ask", ask)
    final = view.final(page)

    assert (len(final.unread), final.inbox_seen) == (3, 3)
    log = [LogEntry("t", one.seq, one.epoch, one.at, one.event, sha256_text(one.body)) for one in page.entries]
    sent = [Sent("t", f"k{n}", post.number, "stored", 1) for n, post in enumerate(posts)]
    report = check_all(gather(RunFacts(), log=log, finals=[final], sent=sent), [LAWS_BY_KEY["taken-once"]])
    assert report["taken-once"].codes == {}
