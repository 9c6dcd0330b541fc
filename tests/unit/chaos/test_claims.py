"""Who holds what, and what counts as cut and as taken over: on the memory store, with a clock of our own."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from invariants.evidence import Answer, Attempt, FaultSeen, Held, Verb
from noeta.backends.stores.memory import MemoryStore
from noeta.chaos.evidence_dir import LineWriter
from noeta.chaos.nemesis.claims import Claims, Victim, recorded_claims
from noeta.chaos.nemesis.record import FaultLine, FaultRecord, read_faults
from noeta.chaos.nemesis.result import count
from noeta.chaos.schedule import Quotas
from noeta.core.errors import StoreUnavailable
from noeta.core.store import Claim, NewTask


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Scene:
    def __init__(self, tmp_path: Path) -> None:
        self.clock = Clock()
        self.store = MemoryStore(clock=self.clock)
        self.claims = Claims(self.store, "q", self.clock)
        self.tmp_path = tmp_path

    def claim(self, task: str, worker: str) -> Claim:
        self.store.create(NewTask(task, "a", "goal", "q"))
        return self.again(worker)

    def again(self, worker: str) -> Claim:
        return self.store.claim(worker, ["q"], 1.0).claims[0]

    def victim(self, *workers: str, spared: frozenset[Held] = frozenset()) -> Victim:
        return Victim(workers, self.tmp_path / "attempts", self.clock.now, int(self.clock.now * 1e6), spared)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_claim_that_stands_after_the_strike_is_cut_and_its_takeover_is_seen(scene: Scene) -> None:
    claim = scene.claim("t1", "w1-1")
    scene.claim("t2", "w2-1")
    victim = scene.victim("w1-1", "w1-2")

    victim.look(scene.claims, scene.clock.now)
    assert victim.held == {Held("t1", claim.epoch)} and victim.is_seen
    scene.clock.now += 0.3
    victim.look(scene.claims, scene.clock.now)
    assert victim.cut == victim.held and not victim.taken and not victim.is_settled
    scene.clock.now += 2.0
    assert {scene.again("w2-2").task_id, scene.again("w2-3").task_id} == {"t1", "t2"}
    victim.look(scene.claims, scene.clock.now)

    assert victim.taken == victim.cut and victim.is_settled


def test_a_claim_that_ended_in_good_order_just_after_the_strike_is_not_cut(scene: Scene) -> None:
    """The statement was under way: the next claim of that task is no takeover."""
    claim = scene.claim("t1", "w1-1")
    victim = scene.victim("w1-1")

    victim.look(scene.claims, scene.clock.now)
    scene.store.release(claim)
    scene.clock.now += 0.3
    victim.look(scene.claims, scene.clock.now)
    scene.again("w2-1")
    victim.look(scene.claims, scene.clock.now)

    assert victim.held and victim.cut == frozenset() and not victim.taken and victim.is_settled


def test_claims_of_an_earlier_process_of_the_same_name_are_not_the_new_ones(scene: Scene) -> None:
    old = scene.claim("t1", "w1-1")
    victim = scene.victim("w1-1", spared=frozenset({Held("t1", old.epoch)}))

    victim.look(scene.claims, scene.clock.now)

    assert victim.held == frozenset()


def test_while_the_store_is_away_the_process_own_record_must_do(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(scene.clock.now * 1e6)
    lines = LineWriter(scene.tmp_path / "attempts")
    for attempt in (
        recorded(Verb.CLAIM, "held", 1, until=now + 500_000),
        recorded(Verb.CLAIM, "renewed", 2, until=now - 1),
        recorded(Verb.RENEW, "renewed", 2, until=now + 1),
        recorded(Verb.CLAIM, "lapsed", 3, until=now - 1),
        recorded(Verb.CLAIM, "released", 4, until=now + 500_000),
        recorded(Verb.RELEASE, "released", 4, until=now + 500_000),
        recorded(Verb.CLAIM, "refused", 5, until=now + 500_000, answer=Answer.UNAVAILABLE),
    ):
        lines.add(attempt)
    lines.close()
    monkeypatch.setattr(scene.claims, "store", Away())
    victim = scene.victim("w1-1")

    victim.look(scene.claims, scene.clock.now)

    assert victim.is_seen and victim.cut is None
    assert victim.held == {Held("held", 1), Held("renewed", 2)} == recorded_claims(scene.tmp_path / "attempts", now)
    assert recorded_claims(scene.tmp_path / "missing", now) == frozenset()


class Away:
    def tasks(self, **_: object) -> None:
        raise StoreUnavailable("away")


def recorded(verb: Verb, task: str, epoch: int, *, until: int, answer: Answer = Answer.OK) -> Attempt:
    return Attempt(f"{task}{verb}", "w1#1", "w1-1", verb, task, 1, epoch=epoch, lease_until=until, answer=answer)


def test_of_a_strike_the_last_line_counts_and_a_torn_one_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "faults.jsonl"
    record = FaultRecord(path)
    line = FaultLine(at=5, kind="kill", process="w1#1", fault="k1")
    ended = msgspec.structs.replace(line, ended_at=9, effective=True, held=(Held("t1", 1),))
    for one in (line, line, ended):
        record.write(one)
    record.close()
    with path.open("ab") as file:
        file.write(b'{"at":7,"kind":"ki')

    assert len(path.read_bytes().splitlines()) == 3
    assert read_faults(path) == (ended,)
    assert read_faults(path)[0].as_seen() == FaultSeen(5, "kill", "w1#1", 9, (), (Held("t1", 1),))
    assert read_faults(tmp_path / "missing") == ()


def test_faults_are_counted_once_however_many_processes_they_struck() -> None:
    lines = [
        FaultLine(at=1, kind="kill_all", process=f"w{n}#1", fault="ka", effective=n == 2, taken_over=(Held("t", n),))
        for n in range(1, 4)
    ]
    lines += [FaultLine(at=2, kind="kill", process="w1#2", fault=f"k{n}", effective=n > 1 or None) for n in range(3)]
    lines += [FaultLine(at=3, kind="restart_same_name", process="w1#2", fault="s", effective=True)]
    lines += [FaultLine(at=4, kind="self_kill", process="w1#3", effective=True)]

    result = count(lines, Quotas(kills=3, kill_alls=1, pauses=1), unfired={}, refused={})

    assert (result.effective_kills, result.kill_alls, result.effective_pauses, result.takeovers) == (2, 1, 0, 3)
    assert result.fired == {"kill": 3, "kill_all": 1, "restart_same_name": 1, "self_kill": 1}
    assert result.missing() == ("2 of 3 effective kills", "0 of 1 effective pauses")
    assert not result.quotas_met
