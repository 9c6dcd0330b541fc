"""What a family hears of each other: children in the background, ends with their cascade, orders to end or to stop."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from noeta.core.events import TaskSuspended
from noeta.core.store import Claim, Commit, Continue, End, LogPage, Next, PutBack, Suspend
from noeta.core.task import Status
from noeta.core.wake import ControlReceived, ExternalEvent
from noeta.testing.model_based.calls import Call, call
from noeta.testing.model_based.example import DATA, TASKS_MAX, WORKERS, Example
from noeta.testing.model_based.material import ENDINGS, KEYS, ORDERS, Material, taken


class FamilyRules(Example):
    """Children that end, parents that end, whoever is cancelled."""

    @precondition(lambda self: any(page.row.parent for page in self.pages.values()))
    @rule(data=DATA)
    def child_ends(self, data: st.DataObject) -> None:
        """A child is claimed and ends, by its own commit or by too many failures: its parent hears of it."""
        made = self.material(data)
        if not any(claim.parent for claim in self.current()):
            self.do(made, call("claim", made.pick(WORKERS), None, 60.0, token=self.token(), limit=3))
        children = [claim for claim in self.current() if claim.parent]
        if not children:
            return
        claim = made.pick(children)
        if made.chance(3):
            self.do(made, call("fail", claim, "boom", retryable=False))
        else:
            self.append(made, claim, made.commit(self.page(claim), End(made.pick(ENDINGS))))

    @rule(data=DATA)
    def bears_in_the_background(self, data: st.DataObject) -> None:
        """A child for the root of the tree, which may have ended by now: a child does it first, where one runs."""
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        claim = made.pick([claim for claim in held if claim.parent] or held)
        page = self.page(claim)
        full = len(self.pages) >= TASKS_MAX
        children = made.children(page, group=False, full=True) if full else made.background(page)
        self.append(made, claim, replace(made.commit(page, Continue(), made.entries(page)), children=children))

    @rule(data=DATA)
    def parent_ends(self, data: st.DataObject) -> None:
        """A parent with unfinished children ends: by its own commit, by too many failures, or by a cancel."""
        made = self.material(data)
        if not self.parents() and len(self.pages) < TASKS_MAX:
            for claim in self.hold(made)[:1]:
                children = made.children(self.page(claim), group=made.chance(2), full=False)
                self.append(made, claim, replace(made.commit(self.page(claim), Continue()), children=children))
        if not self.parents():
            return
        parent = made.pick(self.parents()).row.id
        if not made.chance(3):
            self._leave_alone(made, made.pick(self.children_of(parent)))
        page = self.pages[parent]
        held = [claim for claim in self.current() if claim.task_id == parent]
        match made.pick(("end", "end", "fail", "cancel")) if held else "cancel":
            case "end":
                self._end(made, held[0], page)
            case "fail":
                self.do(made, call("fail", held[0], "boom", attempts_max=1))
            case _:
                self.do(made, self._order(made, parent, ControlReceived()))

    def _leave_alone(self, made: Material, child: str) -> None:
        """The child rests, or waits with or without its owner, while its parent goes on."""
        if not any(claim.task_id == child for claim in self.current()):
            self.do(made, call("claim", made.pick(WORKERS), None, 60.0, token=self.token(), limit=3))
        for claim in [claim for claim in self.current() if claim.task_id == child]:
            page, wait = self.page(claim), ExternalEvent("go")
            choices: list[Next] = [PutBack(5.0), Suspend(wait, keep=True), Suspend(wait, keep=True), Suspend(wait)]
            next = made.pick(choices)
            entries = (TaskSuspended(wait),) if isinstance(next, Suspend) else ()
            self.append(made, claim, Commit(entries, next, page.row.inbox_seq))

    def _end(self, made: Material, claim: Claim, page: LogPage) -> None:
        """Now and then with a child born, or an item for a child, in the same commit."""
        commit = made.commit(page, End(made.pick(ENDINGS)), made.entries(page))
        if made.chance(6):
            commit = replace(commit, children=made.children(page, group=False, full=len(self.pages) >= TASKS_MAX))
        if made.chance(6):
            commit = replace(commit, posts=made.posts(page, self.children_of(page.row.id)))
        self.append(made, claim, commit)

    @rule(data=DATA)
    def is_ordered(self, data: st.DataObject) -> None:
        """A cancel, or an order to stop, to any task; perhaps twice."""
        made = self.material(data)
        step = self._order(made, self.any_task(made), made.pick(ORDERS))
        for _ in range(made.number(1, 2)):
            self.do(made, step)

    @rule(data=DATA)
    def is_cancelled_when_its_holder_died(self, data: st.DataObject) -> None:
        """A lease is over and nobody has taken the task: a cancel ends it. One microsecond before, it is an item."""
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        page = self.page(made.pick(held))
        assert page.row.lease_until is not None
        self.advance_to(made, page.row.lease_until - made.pick((0, 0, 1)))
        self.do(made, self._order(made, page.row.id, ControlReceived()))

    @rule(data=DATA)
    def hears_an_order(self, data: st.DataObject) -> None:
        """An owner renews while an order waits in its inbox, and again when it has taken it."""
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        claim = made.pick(held)
        self.do(made, self._order(made, claim.task_id, made.pick(ORDERS)))
        self.do(made, call("renew", claim, 60.0))
        orders = [item for item in self.page(claim).unread if isinstance(item.item, ControlReceived)]
        if orders and made.chance(2):
            page = self.page(claim)
            self.append(made, claim, made.commit(page, Continue(), tuple(map(taken, orders))))
            self.do(made, call("renew", claim, 60.0))

    def _order(self, made: Material, task: str, order: ControlReceived) -> Call:
        key = made.pick((None, None, *KEYS[:2]))
        step = call("post", task, order)
        return step if key is None else replace(step, options=(("key", key),))

    # -- what there is to choose from ----------------------------------------------------------------------

    def parents(self) -> list[LogPage]:
        """Unfinished tasks with unfinished children."""
        return [
            page for id, page in self.pages.items() if page.row.status is not Status.TERMINAL and self.children_of(id)
        ]

    def children_of(self, task: str) -> list[str]:
        """Its unfinished ones."""
        rows = [page.row for page in self.pages.values()]
        return [row.id for row in rows if row.parent == task and row.status is not Status.TERMINAL]
