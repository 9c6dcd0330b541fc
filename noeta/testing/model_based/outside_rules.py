"""What happens to tasks from outside: clients, other workers, time, sweeps; and what only looks."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from noeta.core.events import TaskCreated
from noeta.core.store import (
    Child,
    Commit,
    Continue,
    NewTask,
    PutBack,
    Snapshot,
    Suspend,
)
from noeta.core.task import Status, claimable_at
from noeta.core.wake import ControlReceived, ExternalEvent, HumanResponseReceived, TimerFired
from noeta.testing.model_based.calls import ADVANCE, call
from noeta.testing.model_based.example import (
    DATA,
    TASKS,
    Example,
)
from noeta.testing.model_based.material import KEYS, taken
from noeta.testing.model_based.pair import BODIES, HASHES, VERSIONS


class OutsideRules(Example):
    """Births, claims, items, time, sweeps, reads, bodies, bad input."""

    @rule(data=DATA)
    def creates(self, data: st.DataObject) -> None:
        made = self.material(data)
        task = NewTask(
            made.pick(TASKS[:3]),
            "agent",
            made.pick(("goal", "goal", "other goal")),
            made.pick(("default", "default", "other")),
            delay_seconds=made.pick((0.0, 0.0, 5.0)),
        )
        self.do(made, call("create", task))

    @rule(data=DATA)
    def claims(self, data: st.DataObject) -> None:
        self.take_tasks(self.material(data))

    @rule(data=DATA)
    def posts(self, data: st.DataObject) -> None:
        made = self.material(data)
        task = self.any_task(made)
        key = made.pick((None, *KEYS))
        step = call("post", task, made.item(task))
        self.do(made, step if key is None else replace(step, options=(("key", key),)))

    @rule(data=DATA)
    def wakes(self, data: st.DataObject) -> None:
        made = self.material(data)
        task = self.any_task(made)
        self.do(made, call("wake", task, made.item(task)))

    @precondition(lambda self: self.waiting())
    @rule(data=DATA)
    def answers_a_wait(self, data: st.DataObject) -> None:
        """What a waiting task waits for, perhaps twice."""
        made = self.material(data)
        page = made.pick(self.waiting())
        item = made.ending_item(page)
        step = call(made.pick(("wake", "post")), page.row.id, item)
        for _ in range(made.number(1, 2)):
            self.do(made, step)

    @rule(data=DATA)
    def repeats_a_key(self, data: st.DataObject) -> None:
        """A post whose key was used before, whatever became of its item: often it is taken in between."""
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        claim = made.pick(held)
        task = claim.task_id
        key = made.pick(("k1", "k2", *(item.key for item in self.page(claim).unread if item.key)))
        self.do(made, call("post", task, made.item(task), key))
        unread = [item for item in self.page(claim).unread if item.key == key]
        if unread and made.chance(2):
            self.append(made, claim, made.commit(self.page(claim), Continue(), (taken(unread[0]),)))
        self.do(made, call("post", task, made.item(task), key))

    @rule(data=DATA)
    def passes_time(self, data: st.DataObject) -> None:
        """To an instant at which something becomes due, one microsecond before or after it, or far."""
        made = self.material(data)
        instants: set[int] = set()
        for page in self.pages.values():
            row = page.row
            instants |= {at for at in (row.ready_at, row.lease_until, claimable_at(row)) if at is not None}
        ahead = sorted(at for at in instants if at > self._pair.now)
        if ahead and not made.chance(6):
            self.advance_to(made, made.pick(ahead) + made.pick((0, 0, -1, 1)))
        else:
            self.do(made, call(ADVANCE, made.pick((1.0, 0.000001, 5.0, 1000.0))))

    @rule(data=DATA)
    def sweeps(self, data: st.DataObject) -> None:
        made = self.material(data)
        step = call(made.pick(("fire_due_timers", "requeue_stale")))
        self.do(made, replace(step, options=(("limit", 1),)) if made.chance(3) else step)

    @rule(data=DATA)
    def reads(self, data: st.DataObject) -> None:
        made = self.material(data)
        task = self.any_task(made)
        if made.chance(3):
            self.do(made, call("task", task))
        elif made.chance(3):
            filters: dict[str, object] = {
                "after": made.pick(("", "t1", "t1.", "t2")),
                "limit": made.pick((200, 1, 2)),
                "status": made.pick((None, *Status)),
                "queue": made.pick((None, "default", "other")),
                "token": made.pick((None, *{claim.token for claim in self._pair.claims[-2:]})),
            }
            chosen = {name: value for name, value in filters.items() if value not in (None, "", 200)}
            self.do(made, call("tasks", **chosen))
        else:
            after, inbox_after = made.number(0, 4), made.number(0, 4)
            self.do(made, call("read", task, after, limit=made.pick((1, 2, 1000)), inbox_after=inbox_after))

    @rule(data=DATA)
    def keeps_bodies(self, data: st.DataObject) -> None:
        made = self.material(data)
        if made.chance(3):
            self.do(made, call("put_content", made.pick(BODIES)))
        elif made.chance(4):
            self.do(made, call("get_content", made.pick((*HASHES, "no hash"))))
        else:
            seq, task = made.number(1, 3), self.any_task(made)
            snapshot = Snapshot(seq, made.pick(VERSIONS), made.pick(BODIES))
            self.do(made, call("put_snapshot", task, snapshot))
            self.do(made, call("get_snapshot", task, made.pick((*VERSIONS, "v3"))))

    @rule(data=DATA)
    def is_refused(self, data: st.DataObject) -> None:
        """What every store refuses before it does anything."""
        made = self.material(data)
        steps = [
            call("create", NewTask("a.b", "agent", "goal")),
            call("create", NewTask("t9", "agent", "goal", delay_seconds=-1.0)),
            call("claim", "w1", [], 60.0, token="token"),
            call("claim", "w1", None, 0.0, token="token"),
            call("claim", "w1", None, 60.0, token="token", limit=0),
            call("post", "t1", TimerFired(0.0)),
            call("post", "t1", ExternalEvent("go", timeout_at=0.0)),
            call("wake", "t1", HumanResponseReceived(timeout_at=0.0)),
            call("post", "t1", ControlReceived("pause")),
            call("read", "t1", -1),
            call("tasks", limit=0),
            call("requeue_stale", limit=0),
        ]
        for claim in self.current()[:1]:
            last = self.page(claim).row.last_seq
            steps += [
                call("append", claim, last, Commit((TaskCreated("agent", "goal"),))),
                call("append", claim, last, Commit(next=PutBack(-1.0))),
                call("append", claim, last, Commit(next=Suspend(ExternalEvent("go", timeout_at=math.inf)))),
                call("append", claim, last, Commit(children=(Child(f"{claim.task_id}.1-0.9", "a", "g", parent="t9"),))),
                call("fail", claim, "boom", attempts_max=0),
                call("renew", claim, -1.0),
            ]
        self.do(made, made.pick(steps))
