"""One process of a race: ``python -m noeta.chaos.certify.racer STORE PLACE NAME EVIDENCE LIFELINE HOLDS``.

It claims, appends, renews, posts and gives back until every task has ended, and records each call before it is sent
and after its answer. It says ``ready``, waits for a line, and then says ``claimed`` for every claim, so that whoever
listens can kill it while it holds one, and ``wrote`` for every append, so that a race that stands still is seen.
``HOLDS`` n: at its n-th claim, half of its appends made, it says ``holds`` and waits for its death.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Final

from invariants import Sent
from noeta.chaos.certify.candidate import load
from noeta.chaos.evidence_dir import LineWriter
from noeta.chaos.instrument import FileSink, die_with_harness
from noeta.chaos.recording import RecordingStore
from noeta.core.errors import CommitUnknown, Conflict, StoreUnavailable
from noeta.core.events import MessageTaken, ModelReplied, TaskCompleted
from noeta.core.ids import micros
from noeta.core.store import Claim, Commit, Continue, End, PutBack, Store
from noeta.core.task import Status
from noeta.core.wake import ControlReceived, HumanResponseReceived

TASKS: Final = tuple(f"race-{n:02}" for n in range(12))
LEASE_SECONDS: Final = 1.5
"""Short, so that what a dead process held is taken over soon."""

ENTRIES: Final = 24
"""A task ends when its log is that long."""

APPENDS_A_CLAIM: Final = 4
CLAIMS_AT_ONCE: Final = 2
POLL_SECONDS: Final = 0.02
SNEEZES_MAX: Final = 50
"""Calls in a row that the store may be unable to take."""


def main(name: str, place: str, racer: str, evidence: str, lifeline: str, holds: str) -> None:
    """Race."""
    die_with_harness(int(lifeline))
    folder = Path(evidence)
    sink = FileSink(folder / f"{racer}.attempts.jsonl")
    store = RecordingStore(load(name).make(place, None), sink, process=racer, clock=_wall)
    sent = LineWriter(folder / f"{racer}.sent.jsonl")
    say("ready")
    sys.stdin.readline()
    Racer(store, sent, racer, int(holds)).run()
    store.close()
    say("done")


class Racer:
    """One process's part in the race."""

    def __init__(self, store: Store, sent: LineWriter, name: str, holds: int) -> None:
        self._store = store
        self._sent = sent
        self._name = name
        self._holds = holds
        self._claims = 0
        self._sneezes = 0

    def run(self) -> None:
        """Until every task has ended."""
        idle = threading.Event()
        while not self._all_ended():
            try:
                claims = self._store.claim(self._name, None, LEASE_SECONDS, limit=CLAIMS_AT_ONCE).claims
                for claim in claims:
                    say(f"claimed {claim.task_id} {claim.epoch}")
                    self._drive(claim)
            except Conflict:
                claims = ()  # it was slow, and another has the task
            except (StoreUnavailable, CommitUnknown):
                self._sneezes += 1
                if self._sneezes > SNEEZES_MAX:
                    raise
                claims = ()
            else:
                self._sneezes = 0
            if not claims:
                idle.wait(POLL_SECONDS)

    def _drive(self, claim: Claim) -> None:
        self._claims += 1
        seq = claim.last_seq
        for n in range(APPENDS_A_CLAIM):
            if n == APPENDS_A_CLAIM // 2:
                if self._claims == self._holds:
                    say("holds")
                    sys.stdin.readline()
                self._store.renew(claim, LEASE_SECONDS)
                self._say_to_neighbour(claim)
            page = self._store.read(claim.task_id, seq)
            taken = [
                MessageTaken(item.number, item.item)
                for item in page.unread
                if isinstance(item.item, HumanResponseReceived | ControlReceived)
            ]
            reply = ModelReplied(f"{self._name} {claim.epoch} {n}")
            step = PutBack() if n == APPENDS_A_CLAIM - 1 else Continue()
            if seq >= ENTRIES:
                commit = Commit((*taken, reply), End(TaskCompleted("raced")), page.inbox_seen)
            else:
                commit = Commit((*taken, reply), step, page.inbox_seen)
            answer = self._store.append(claim, seq, commit)
            say("wrote")
            seq = answer.last_seq
            if answer.status is not Status.RUNNING:
                return
        self._store.release(claim)

    def _say_to_neighbour(self, claim: Claim) -> None:
        """Everybody who drives a task says the same to the next one, under the same key: one of them is first."""
        neighbour = TASKS[(TASKS.index(claim.task_id) + 1) % len(TASKS)]
        key = f"from {claim.task_id} {claim.last_seq // 4}"
        posted = self._store.post(neighbour, HumanResponseReceived(text=key), key)
        self._sent.add(Sent(neighbour, key, posted.number, posted.outcome, _wall()))

    def _all_ended(self) -> bool:
        return all(row.status is Status.TERMINAL for row in self._store.tasks())


def say(line: str) -> None:
    """To whoever started this process."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _wall() -> int:
    return micros(time.time())


if __name__ == "__main__":
    main(*sys.argv[1:])
