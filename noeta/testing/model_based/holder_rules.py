"""What a holder of a claim does to the claim itself, in time and too late; and what becomes of it when it dies."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.store import (
    Claim,
    Continue,
    LogPage,
)
from noeta.core.task import FAIL_ATTEMPTS_MAX, claimable_at
from noeta.testing.model_based.calls import call
from noeta.testing.model_based.example import (
    DATA,
    LEASES,
    WORKERS,
    Example,
)
from noeta.testing.model_based.material import Material, forged


class HolderRules(Example):
    """Renew, release, resume, fail, lapse, forge."""

    @precondition(lambda self: self._pair.claims)
    @rule(data=DATA)
    def renews(self, data: st.DataObject) -> None:
        made = self.material(data)
        some = made.some(self._pair.claims[-6:], 3)
        if made.chance(8):
            some.append(made.pick(forged(some[0])))
        lease = made.pick(LEASES)
        self.do(made, call("renew", some[0] if len(some) == 1 else some, lease))

    @rule(data=DATA)
    def releases(self, data: st.DataObject) -> None:
        made = self.material(data)
        if held := self.hold(made):
            self.do(made, call("release", made.pick(held)))

    @rule(data=DATA)
    def resumes(self, data: st.DataObject) -> None:
        """A kept task first, where there is one; now and then again, as after an unknown outcome."""
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        claim = made.pick([claim for claim in held if self.page(claim).row.kept] or held)
        for _ in range(made.pick((1, 1, 2))):
            self.do(made, call("resume", claim))

    @rule(data=DATA)
    def fails(self, data: st.DataObject) -> None:
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        options: dict[str, object] = {}
        if made.chance(4):
            options["retryable"] = False
        if made.chance(2):
            options["attempts_max"] = made.pick((FAIL_ATTEMPTS_MAX, 1, 2))
        self.do(made, call("fail", made.pick(held), "boom", **options))

    @rule(data=DATA)
    def is_abandoned(self, data: st.DataObject) -> None:
        """A holder dies: the clock goes to the end of its lease, or of its rest, and others come."""
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        row = self.page(made.pick(held)).row
        instant = made.pick((claimable_at(row), row.lease_until))
        assert instant is not None
        self.advance_to(made, instant - made.pick((0, 0, 0, 1)))
        if made.chance(4):
            self.do(made, call("requeue_stale", limit=made.pick((100, 1))))
        else:
            self.take_tasks(made, queues=False)

    @rule(data=DATA)
    def dies_again_and_again(self, data: st.DataObject) -> None:
        """A task that kills whoever takes it: its takeovers add up, and it must rest."""
        made = self.material(data)
        for _ in range(made.number(1, 4)):
            if not self.current():
                return
            row = self.page(made.pick(self.current())).row
            assert row.lease_until is not None
            self.advance_to(made, row.lease_until + made.pick((0, MICROS_PER_SECOND)))
            self.do(made, call("claim", made.pick(WORKERS), None, 1.0, token=self.token(), limit=made.pick((1, 2))))

    @rule(data=DATA)
    def comes_late(self, data: st.DataObject) -> None:
        """An owner comes back when its lease is just over, and nobody took its task; or just before."""
        made = self.material(data)
        if not (held := self.hold(made)):
            return
        claim = made.pick(held)
        lease_until = self.page(claim).row.lease_until
        assert lease_until is not None
        self.advance_to(made, lease_until - made.pick((0, 0, 1)))
        self._own(made, claim, self.page(claim))

    @precondition(lambda self: self._pair.claims)
    @rule(data=DATA)
    def comes_too_late(self, data: st.DataObject) -> None:
        """Somebody whose claim was taken over, or never was, wants to do what an owner does."""
        made = self.material(data)
        held = self.current()
        gone = [claim for claim in self._pair.claims if claim not in held]
        origin = made.pick(held if held and made.chance(2) else gone or held)
        claim = made.pick(forged(origin)) if origin in held else made.pick((origin, *forged(origin)))
        self._own(made, claim, self.page(origin))

    def _own(self, made: Material, claim: Claim, page: LogPage) -> None:
        """One of the verbs that need a claim."""
        match made.pick(("append", "renew", "release", "resume", "fail")):
            case "append":
                self.append(made, claim, made.commit(page, Continue(), made.entries(page)))
            case "renew":
                self.do(made, call("renew", claim, 60.0))
            case "release" | "resume" as verb:
                self.do(made, call(verb, claim))
            case _:
                self.do(made, call("fail", claim, "boom"))
