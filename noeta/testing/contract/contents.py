"""Contents by their hash, and snapshots that may be missing but never wrong."""

from __future__ import annotations

import hashlib

import pytest

from noeta.core.errors import ContentNotFound, InvalidLease, UnknownTask
from noeta.core.store import Content, ContentRef, Snapshot
from noeta.testing.contract.stage import LEASE, ContractTests, Stage

BODIES = {
    "empty": b"",
    "every byte": bytes(range(256)),
    "nul": b"\x00" * 10,
    "no text": b"\xff\xfe\xfd",
    "three megabytes": b"0123456789abcdef" * (3 * 65_536),
}


class ContentsContract(ContractTests):
    @pytest.mark.parametrize("name", sorted(BODIES))
    def test_a_body_comes_back_by_its_hash(self, stage: Stage, name: str) -> None:
        body = BODIES[name]

        ref = stage.store.put_content(body, "text/plain")

        assert ref == ContentRef(hashlib.sha256(body).hexdigest(), len(body), "text/plain")
        assert stage.store.get_content(ref.hash) == body

    def test_the_same_body_is_kept_once_whatever_it_is_called(self, stage: Stage) -> None:
        first = stage.store.put_content(b"x", "text/plain")
        second = stage.store.put_content(b"x", "image/png")

        assert (first.hash, first.media_type, second.media_type) == (second.hash, "text/plain", "image/png")
        assert stage.store.get_content(second.hash) == b"x"

    @pytest.mark.parametrize("hash", ["0" * 64, "", "no hash", "\x00", "\ud800"], ids=ascii)
    def test_a_hash_that_nobody_put_is_not_found(self, stage: Stage, hash: str) -> None:
        with pytest.raises(ContentNotFound):
            stage.store.get_content(hash)

    def test_a_commits_contents_land_with_it(self, stage: Stage) -> None:
        claim = stage.running()

        stage.append(claim, contents=(Content(b"one"), Content(b"two", "text/plain"), Content(b"one")))

        for body in (b"one", b"two"):
            assert stage.store.get_content(hashlib.sha256(body).hexdigest()) == body

    def test_a_refused_commit_leaves_no_content(self, stage: Stage) -> None:
        claim = stage.running()
        stage.clock.advance(LEASE)

        with pytest.raises(InvalidLease):
            stage.append(claim, contents=(Content(b"never"),))

        with pytest.raises(ContentNotFound):
            stage.store.get_content(hashlib.sha256(b"never").hexdigest())

    # -- snapshots -----------------------------------------------------------------------------------------

    def test_a_snapshot_may_be_missing(self, stage: Stage) -> None:
        stage.create()

        assert stage.store.get_snapshot("t", "v1") is None

    def test_the_newest_snapshot_of_a_version_is_kept(self, stage: Stage) -> None:
        """A late one rolls nothing back. https://github.com/langchain-ai/langgraph/pull/8862"""
        stage.create()
        for seq in (3, 9, 5):
            stage.store.put_snapshot("t", Snapshot(seq, "v1", f"state {seq}\x00".encode()))

        assert stage.store.get_snapshot("t", "v1") == Snapshot(9, "v1", b"state 9\x00")

    def test_versions_do_not_see_each_others_snapshots(self, stage: Stage) -> None:
        stage.create()
        stage.store.put_snapshot("t", Snapshot(3, "v1", b"one"))
        stage.store.put_snapshot("t", Snapshot(2, "v2", b"two"))

        assert stage.store.get_snapshot("t", "v1") == Snapshot(3, "v1", b"one")
        assert stage.store.get_snapshot("t", "v2") == Snapshot(2, "v2", b"two")
        assert stage.store.get_snapshot("t", "v3") is None

    def test_tasks_do_not_see_each_others_snapshots(self, stage: Stage) -> None:
        stage.create("a")
        stage.create("b")
        stage.store.put_snapshot("a", Snapshot(1, "v1", b"of a"))

        assert stage.store.get_snapshot("b", "v1") is None

    def test_a_snapshot_changes_neither_row_nor_log(self, stage: Stage) -> None:
        stage.running()

        with stage.nothing_changes():
            stage.store.put_snapshot("t", Snapshot(1, "v1", b""))
        assert stage.store.get_snapshot("t", "v1") == Snapshot(1, "v1", b"")

    def test_an_unknown_task_has_no_snapshots(self, stage: Stage) -> None:
        with pytest.raises(UnknownTask):
            stage.store.put_snapshot("nobody", Snapshot(1, "v1", b""))
        with pytest.raises(UnknownTask):
            stage.store.get_snapshot("nobody", "v1")
