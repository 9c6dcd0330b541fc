"""The commits of an owner: going on, taking items, waiting in every way, ending, children and posts."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from noeta.core.events import TaskSuspended
from noeta.core.store import (
    Append,
    Continue,
    End,
    Next,
    PutBack,
    Suspend,
)
from noeta.core.task import Shape
from noeta.core.wake import SubtaskCompleted, SubtaskGroupCompleted
from noeta.testing.model_based.calls import call
from noeta.testing.model_based.example import (
    DATA,
    TASKS_MAX,
    Example,
)
from noeta.testing.model_based.material import ENDINGS, GROUP, GROUP_MEMBERS, ITEMS


class CommitRules(Example):
    """Most of them legal; the share that is not is drawn by ``append`` and by `material.py`."""

    @rule(data=DATA)
    def goes_on(self, data: st.DataObject) -> None:
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        claim = made.pick(held)
        page = self.page(claim)
        commit = made.commit(page, Continue(), made.entries(page))
        if made.chance(3):
            commit = replace(commit, contents=made.contents())
        self.append(made, claim, commit)

    @rule(data=DATA)
    def takes(self, data: st.DataObject) -> None:
        """An entry that takes items, and one of the decisions that may come with it."""
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        claim = made.pick([claim for claim in held if self.page(claim).unread] or held)
        page = self.page(claim)
        choices: list[Next] = [Continue(), Continue(), PutBack(), End(made.pick(ENDINGS))]
        self.append(made, claim, made.commit(page, made.pick(choices), made.taking(page)))

    @rule(data=DATA)
    def suspends(self, data: st.DataObject) -> None:
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        claim = made.pick(held)
        self.append(made, claim, made.suspend(self.page(claim)))

    @rule(data=DATA)
    def is_overtaken_by_an_item(self, data: st.DataObject) -> None:
        """An item comes between an owner's look at the inbox and the commit that waits or ends."""
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        claim = made.pick(held)
        page = self.page(claim)
        self.do(made, call(made.pick(("wake", "post")), claim.task_id, made.pick(ITEMS)))
        if made.chance(3):
            commit = made.commit(page, End(made.pick(ENDINGS)), made.entries(page))
        else:
            commit = made.suspend(page)
        self.append(made, claim, replace(commit, inbox_seen=page.row.inbox_seq))

    @rule(data=DATA)
    def puts_back(self, data: st.DataObject) -> None:
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        claim = made.pick(held)
        page = self.page(claim)
        entries = made.entries(page) if made.chance(2) else ()
        self.append(made, claim, made.commit(page, PutBack(made.pick((0.0, 5.0))), entries))

    @rule(data=DATA)
    def ends(self, data: st.DataObject) -> None:
        """A child first, where one runs: its result goes to its parent."""
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        claim = made.pick([claim for claim in held if claim.parent] or held)
        page = self.page(claim)
        commit = made.commit(page, End(made.pick(ENDINGS)), made.entries(page))
        if made.chance(4):
            commit = replace(commit, posts=made.posts(page, (*self.pages, *self.pages, "nobody")))
        self.append(made, claim, commit)

    @rule(data=DATA)
    def bears(self, data: st.DataObject) -> None:
        """A child, one that was born before, or a group; and perhaps the wait for it in the same commit."""
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        claim = made.pick(held)
        page = self.page(claim)
        children = made.children(page, group=made.chance(2), full=len(self.pages) >= TASKS_MAX)
        next: Next = Continue()
        if len(children) > 1 and made.chance(2):
            next = Suspend(SubtaskGroupCompleted(GROUP, GROUP_MEMBERS), made.chance(4))
        self.append(made, claim, replace(made.commit(page, next, made.entries(page)), children=children))

    @precondition(lambda self: len(self.pages) < TASKS_MAX)
    @rule(data=DATA)
    def waits_for_a_group(self, data: st.DataObject) -> None:
        """Results of a group come before its parent waits for it, and after."""
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        claim = made.pick(held)
        children = made.children(self.page(claim), group=True, full=False)
        self.append(made, claim, replace(made.commit(self.page(claim), Continue()), children=children))
        early = made.number(0, len(children))
        results = [SubtaskCompleted(child.id, group_id=child.group) for child in children]
        for result in results[:early]:
            self.do(made, call("wake", claim.task_id, result))
        self.append(made, claim, made.suspend(self.page(claim), SubtaskGroupCompleted(GROUP, GROUP_MEMBERS)))
        for result in results[early:]:
            self.do(made, call("wake", claim.task_id, result))

    @rule(data=DATA)
    def waits_for_an_instant(self, data: st.DataObject) -> None:
        """A timer's instant comes, or the end of a wait's time, and somebody looks: a sweep, a claim, or the owner that
        kept its claim. Now and then an item comes first."""
        made = self.material(data)
        if not any(page.row.ready_at for page in self.waiting()):
            for claim in self.hold(made)[:1]:
                wait = made.timed()
                next = Suspend(wait, made.chance(3))
                self.append(made, claim, made.commit(self.page(claim), next, (TaskSuspended(wait),)))
        timed = [page.row for page in self.waiting() if page.row.ready_at]
        if not timed:
            return
        row = made.pick(timed)
        assert row.ready_at is not None
        if made.chance(3):
            self.do(made, call(made.pick(("wake", "post")), row.id, made.ending_item(self.pages[row.id])))
        self.advance_to(made, row.ready_at - made.pick((0, 0, 0, 1)))
        if row.shape is Shape.KEPT:
            kept = [claim for claim in self._pair.claims if (claim.task_id, claim.epoch) == (row.id, row.epoch)]
            self.do(made, call("renew", kept[-1], 60.0) if made.chance(2) else call("resume", kept[-1]))
        elif made.chance(2):
            self.do(made, call("fire_due_timers"))
        else:
            self.take_tasks(made, queues=False)

    @rule(data=DATA)
    def posts_with_a_commit(self, data: st.DataObject) -> None:
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        claim = made.pick(held)
        page = self.page(claim)
        commit = made.commit(page, Continue(), made.entries(page))
        self.append(made, claim, replace(commit, posts=made.posts(page, (*self.pages, *self.pages, "nobody"))))

    @rule(data=DATA)
    def appends_many(self, data: st.DataObject) -> None:
        """Commits of different tasks in one call, now and then a stale one among them, or one task twice."""
        made = self.material(data)
        members: list[Append] = []
        taken: set[str] = set()
        if not (held := self.hold(made)):
            return
        for claim in made.some([*held, *self._pair.claims[-2:]], 3):
            if claim.task_id in taken and not made.chance(8):
                continue
            taken.add(claim.task_id)
            page = self.page(claim)
            commit = made.suspend(page) if made.chance(3) else made.commit(page, Continue(), made.entries(page))
            if made.chance(4):
                commit = replace(commit, posts=made.posts(page, (*self.pages, *self.pages, "nobody")))
            members.append(Append(claim, page.row.last_seq, commit))
        self.do(made, call("append_many", members))
