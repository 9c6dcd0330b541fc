"""Reads: pages, filters, one instant."""

from __future__ import annotations

import pytest

from noeta.core.errors import StoreUnavailable, UnknownTask
from noeta.core.events import MessageTaken, ModelCalled
from noeta.core.limits import COMMIT_PARTS_MAX
from noeta.core.store import Commit, NewTask, Post, Store, claim_from_row
from noeta.core.task import Status
from noeta.core.wake import ExternalEvent
from noeta.testing.contract.stage import A_MESSAGE, LEASE, ContractTests, Stage

CALLED = ModelCalled("h", 1)


class ReadsContract(ContractTests):
    def test_a_log_is_read_in_pages(self, stage: Stage) -> None:
        """Keeps: gapless-log."""
        claim = stage.running()
        stage.append(claim, *[CALLED] * 6)

        pages = [stage.store.read("t", after, limit=3) for after in (0, 3, 6, 7)]

        assert [[entry.seq for entry in page.entries] for page in pages] == [[1, 2, 3], [4, 5, 6], [7], []]
        assert [page.more for page in pages] == [True, True, False, False]

    def test_a_page_after_the_end_is_empty(self, stage: Stage) -> None:
        stage.create()

        page = stage.store.read("t", 999)

        assert (page.entries, page.more, page.row.last_seq) == ((), False, 1)

    def test_a_page_carries_row_and_inbox_of_the_same_instant(self, stage: Stage) -> None:
        claim = stage.running()
        stage.store.post("t", A_MESSAGE)
        stage.store.post("t", ExternalEvent("x"))
        stage.append(claim, MessageTaken(1, A_MESSAGE))

        page = stage.page()

        assert page.row == stage.row()
        assert [item.number for item in page.unread] == [2]
        assert page.inbox_seen == 2

    def test_an_empty_inbox_is_seen_up_to_its_newest_number(self, stage: Stage) -> None:
        claim = stage.running()
        assert stage.page().inbox_seen == 0
        stage.store.post("t", A_MESSAGE)
        stage.append(claim, MessageTaken(1, A_MESSAGE))

        assert (stage.page().unread, stage.page().inbox_seen) == ((), 1)

    def test_a_flooded_inbox_is_seen_as_far_as_it_is_shown(self, stage: Stage) -> None:
        """https://github.com/temporalio/features/issues/487"""
        claim = stage.running("sender")
        stage.create("t")
        sent = COMMIT_PARTS_MAX + 200
        for start in range(0, sent, 600):
            posts = tuple(Post("t", A_MESSAGE, f"m{n}") for n in range(start, start + 600))
            stage.store.append(claim, 1, Commit(posts=posts))

        page = stage.page()

        assert [item.number for item in page.unread] == list(range(1, COMMIT_PARTS_MAX + 1))
        assert (page.inbox_seen, page.row.inbox_seq) == (COMMIT_PARTS_MAX, sent)

    def test_tasks_do_not_see_each_others_entries(self, stage: Stage) -> None:
        a, b = stage.running("a"), stage.running("b")
        stage.append(a, CALLED, CALLED)
        stage.append(b, CALLED)

        assert [len(stage.page(id).entries) for id in "ab"] == [3, 2]

    @pytest.mark.parametrize("id", ["nobody", "", "x" * 8_001, "nul \x00", "\ud800", "t.1-0.0"], ids=ascii)
    def test_reading_an_unknown_task_names_it(self, stage: Stage, id: str) -> None:
        with pytest.raises(UnknownTask) as unknown:
            stage.store.read(id)
        assert unknown.value.task_id == id
        with pytest.raises(UnknownTask):
            stage.store.task(id)

    # -- rows ----------------------------------------------------------------------------------------------

    def test_rows_come_in_id_order_by_code_point(self, stage: Stage) -> None:
        for id in ("b", "a", "B", "é", "a2", "Z", "a-1", "😀"):
            stage.create(id)

        assert [row.id for row in stage.store.tasks()] == ["B", "Z", "a", "a-1", "a2", "b", "é", "😀"]

    def test_rows_are_read_in_pages(self, stage: Stage) -> None:
        for n in range(5):
            stage.create(f"t{n}")

        assert [row.id for row in stage.store.tasks(limit=2)] == ["t0", "t1"]
        assert [row.id for row in stage.store.tasks(after="t1", limit=2)] == ["t2", "t3"]
        assert [row.id for row in stage.store.tasks(after="t3", limit=2)] == ["t4"]
        assert stage.store.tasks(after="t4") == ()

    def test_rows_are_filtered_by_status_and_queue(self, stage: Stage) -> None:
        stage.ended("done")
        stage.suspended("waits")
        stage.running("runs", queue="q")
        stage.create("new", queue="q")

        found = {status: [row.id for row in stage.store.tasks(status=status)] for status in Status}
        assert found == {
            Status.PENDING: ["new"],
            Status.RUNNING: ["runs"],
            Status.SUSPENDED: ["waits"],
            Status.TERMINAL: ["done"],
        }
        assert [row.id for row in stage.store.tasks(queue="q")] == ["new", "runs"]
        assert [row.id for row in stage.store.tasks(queue="q", status=Status.RUNNING)] == ["runs"]

    def test_a_kept_row_is_suspended_and_found_by_its_token(self, stage: Stage) -> None:
        claim = stage.suspended(keep=True)

        (row,) = stage.store.tasks(token=claim.token, status=Status.SUSPENDED)
        assert row.kept

    def test_a_row_stands_for_its_claim(self, stage: Stage) -> None:
        claim = stage.running()

        assert claim_from_row(stage.row(), "pending") == claim

    def test_all_handles_see_what_was_acknowledged(self, stage: Stage) -> None:
        """Keeps: acked-stays."""
        claim = stage.running()
        stage.append(claim, CALLED)
        other = stage.another()

        assert other.read("t") == stage.page()
        assert other.tasks() == stage.store.tasks()

    def test_a_closed_store_answers_that_it_is_unavailable(self, stage: Stage) -> None:
        claim = stage.running()
        store: Store = stage.store
        store.close()
        store.close()

        for ask in (
            lambda: store.task("t"),
            lambda: store.read("t"),
            lambda: store.tasks(),
            lambda: store.create(NewTask("u", "agent", "goal")),
            lambda: store.claim("w", None, LEASE),
            lambda: store.renew(claim, LEASE),
            lambda: store.append(claim, 1, Commit((CALLED,))),
            lambda: store.post("t", A_MESSAGE),
            lambda: store.requeue_stale(),
            lambda: store.fire_due_timers(),
            lambda: store.put_content(b""),
        ):
            with pytest.raises(StoreUnavailable):
                ask()
