"""Orders, points and counts: how a worker process strikes itself exactly once, and how the harness learns of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec

from noeta.chaos.instrument import ChaosWorld
from noeta.chaos.orders import Aimed, Control, Orders, PointCounter, SelfStrike, WorkerConfig, read_counts


def born(control: Control, name: str = "w1", incarnation: int = 1) -> WorkerConfig:
    root = control.root.parent
    return WorkerConfig(
        name=name,
        incarnation=incarnation,
        control=str(control.root),
        attempts=str(root),
        journal=str(root),
        lifeline=-1,
        retry_attempts=3,
        retry_first_seconds=0.0,
    )


def control_in(tmp_path: Path) -> Control:
    control = Control(tmp_path / "control")
    control.make()
    return control


def strike(fault: str, process: str = "w1#1") -> SelfStrike:
    return SelfStrike(fault, "kill", "append.before", 1, process, 1, 1, {})


def test_a_strike_that_is_not_ordered_any_more_is_not_taken(tmp_path: Path) -> None:
    control = control_in(tmp_path)
    aimed = Aimed("f1", "kill", "append.before", 1)
    control.order("w1", Orders(aimed=(aimed,)))
    control.order("w1", Orders())

    assert not control.take("w1", strike("f1"))
    assert control.struck("f1") is None


def test_one_of_many_takes_a_strike(tmp_path: Path) -> None:
    control = control_in(tmp_path)
    names = [f"w{number}" for number in range(8)]
    for name in names:
        control.order(name, Orders(aimed=(Aimed("f1", "kill", "append.before", 1),)))
    taken: list[str] = []

    def take(name: str) -> None:
        if control.take(name, strike("f1", f"{name}#1")):
            taken.append(f"{name}#1")

    threads = [threading.Thread(target=take, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = control.struck("f1")

    assert found is not None
    assert [found.process] == taken


def test_no_strike_comes_after_the_gate(tmp_path: Path) -> None:
    """Processes race to strike while everybody is disarmed: after the gate the list of strikes is final."""
    control = control_in(tmp_path)
    faults = [f"f{number}" for number in range(200)]
    control.order("w1", Orders(aimed=tuple(Aimed(fault, "kill", "p", 1) for fault in faults)))
    taken: list[str] = []

    def race() -> None:
        taken.extend(fault for fault in faults if control.take("w1", strike(fault)))

    thread = threading.Thread(target=race)
    thread.start()
    while not taken:
        pass
    control.order("w1", Orders())
    control.wait_for_gate()
    final = {fault for fault in faults if control.struck(fault) is not None}
    thread.join()

    assert set(taken) == final
    assert 0 < len(final) < len(faults)


def test_a_skewed_clock_is_off_until_it_is_healed_and_monotonic_time_is_not(tmp_path: Path) -> None:
    control = control_in(tmp_path)
    control.order("w1", Orders(skew_seconds=-2.0))
    skewed, right = ChaosWorld(born(control)), ChaosWorld(born(control, "w2"))

    off = skewed.wall() - right.wall()
    assert abs(skewed.monotonic() - right.monotonic()) < 1.0
    control.order("w1", Orders())
    skewed.point("anything")
    healed = skewed.wall() - right.wall()

    assert -2.5 < off < -1.5
    assert abs(healed) < 0.5


def test_counts_survive_the_process_that_counted(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    program = (
        "import os, sys, signal; from pathlib import Path; from noeta.chaos.orders import PointCounter\n"
        "counter = PointCounter(Path(sys.argv[1]))\n"
        "for n in range(1234): counter.add('append.before')\n"
        "counter.add('claim.after'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )

    assert ended.returncode == -signal.SIGKILL
    assert read_counts(path) == {"append.before": 1234, "claim.after": 1}


def test_counts_of_a_process_that_never_began_are_none(tmp_path: Path) -> None:
    assert read_counts(tmp_path / "missing") == {}
    PointCounter(tmp_path / "empty")
    assert read_counts(tmp_path / "empty") == {}


def in_a_process(control: Control, program: str) -> subprocess.Popen[bytes]:
    begin = (
        "import sys; from pathlib import Path; from noeta.chaos.orders import Control\n"
        "from noeta.chaos.instrument import ChaosWorld; from tests.unit.chaos.test_orders import born\n"
        "world = ChaosWorld(born(Control(Path(sys.argv[1]))))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", begin + program, str(control.root)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path.cwd())])},
        stdout=subprocess.PIPE,
    )


def test_a_process_kills_itself_at_the_nth_passing_after_writing_that_it_will(tmp_path: Path) -> None:
    control = control_in(tmp_path)
    control.order("w1", Orders(aimed=(Aimed("f1", "kill", "append.before", 3),)))

    child = in_a_process(control, "for n in range(9): print(n, flush=True); world.point('append.before', task='t1')")
    said, _ = child.communicate(timeout=60)
    found = control.struck("f1")
    lines = control.points_path("w1.1").read_bytes().splitlines()

    assert child.returncode == -signal.SIGKILL
    assert said.split() == [b"0", b"1", b"2"]
    assert found is not None and (found.process, found.pid, found.facts) == ("w1#1", child.pid, {"task": "t1"})
    assert [msgspec.json.decode(line, type=SelfStrike) for line in lines] == [found]


def test_a_process_stops_itself_and_goes_on_where_it_was(tmp_path: Path) -> None:
    control = control_in(tmp_path)
    control.order("w1", Orders(aimed=(Aimed("f1", "pause", "append.before", 1),)))

    child = in_a_process(control, "world.point('append.before'); print('went on', flush=True)")
    _, status = os.waitpid(child.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert control.struck("f1") is not None
    control.order("w1", Orders())
    control.wait_for_gate()  # a stopped process holds no gate
    os.kill(child.pid, signal.SIGCONT)
    said, _ = child.communicate(timeout=60)

    assert said == b"went on\n"
    assert child.returncode == 0
