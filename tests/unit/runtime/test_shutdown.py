"""Stopping: the grace, abandoning, releasing, and signals."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from invariants import LogEntry, RunFacts, Verdict, check_all, gather
from noeta.backends.stores.memory import MemoryStore
from noeta.core import texts
from noeta.core.events import ModelCalled, TaskCompleted, ToolFinished
from noeta.core.model import ModelReply, ModelRequest, ProviderError
from noeta.core.retry import RetryPolicy
from noeta.core.runner import Engine
from noeta.core.store import NewTask
from noeta.core.task import Status
from noeta.core.tool import StepCancelled, ToolContext
from noeta.core.world import Spawned
from noeta.runtime.dispatcher import Lease
from noeta.runtime.threads import ThreadEvent, ThreadWorld
from noeta.runtime.worker import WorkerLoop, install_stop_signals
from noeta.testing.faults import FaultyStore
from noeta.testing.profile import bundle
from tests.actors import PATIENCE_SECONDS, Effect, Model, Signals, asks, engine, says, wait_until


class Scene:
    """A loop that runs on a thread of its own, with one task whose tool waits for the test."""

    def __init__(self, *, loop: type[WorkerLoop] = WorkerLoop, grace: float | None = 30.0) -> None:
        self.memory = MemoryStore()
        self.store = FaultyStore(self.memory)
        self.started, self.go_on = threading.Event(), threading.Event()
        self.journal: list[tuple[str, int]] = []
        self.signals = Signals()
        agent = engine(Model((asks("slow"), says())), Effect("slow", self.journal, after=self.work))
        self.loop = loop(
            bundle(self.store, agent),
            poll_interval=0.01,
            step_poll_s=0.01,
            shutdown_grace_s=grace,
            reliability_sink=self.signals,
        )
        self.memory.create(NewTask("t", "agent", "goal"))

    def work(self, ctx: ToolContext) -> None:
        self.started.set()
        wait_until(self.go_on, "the end of the step")

    def run(self) -> Spawned:
        """Start the loop; returns when its step is in flight."""
        running = ThreadWorld().spawn("loop", self.loop.run_forever)
        wait_until(self.started, "the step")
        assert self.loop.running
        return running


@pytest.mark.holds("member/stop", "member/running", "member/abandoned", "stopping/waits")
def test_a_stopped_loop_lets_its_step_end_and_claims_nothing_more() -> None:
    scene = Scene()
    running = scene.run()
    scene.memory.create(NewTask("u", "agent", "goal"))

    scene.loop.stop()
    assert not running.done.wait(0.05)
    scene.go_on.set()

    assert running.done.wait(PATIENCE_SECONDS)
    assert (scene.loop.running, scene.loop.abandoned) == (False, False)
    assert scene.memory.task("t").status is Status.TERMINAL
    assert scene.memory.task("u").status is Status.PENDING


@pytest.mark.holds(
    "knob/grace",
    "member/abandoned",
    "outcome/proves",
    "stopping/waits",
    "stopping/abandons",
    "member/host-must-exit",
    "stopping/process-exits",
)
def test_when_the_grace_is_over_the_step_is_abandoned_and_its_lease_left_alone() -> None:
    """Neither released nor failed, and its zombie writes nothing."""
    scene = Scene(grace=0.05)
    spawned: dict[str, Spawned] = {}
    spawn = scene.loop._world.spawn

    def remembered(name: str, run: Callable[[], None]) -> Spawned:
        spawned[name] = spawn(name, run)
        return spawned[name]

    scene.loop._world.spawn = remembered  # type: ignore[method-assign]
    running = scene.run()

    scene.loop.stop()

    assert running.done.wait(PATIENCE_SECONDS)
    assert scene.loop.abandoned
    assert scene.signals.kinds() == ["shutdown_abandoned"]
    assert scene.signals.events[0].detail == {"grace_s": 0.05}
    assert (scene.store.calls("release"), scene.store.calls("fail")) == (0, 0)
    row = scene.memory.task("t")
    assert (row.status, row.epoch) == (Status.RUNNING, 1)
    renewals = scene.store.calls("renew")
    scene.loop._process._keeper.beat()
    assert scene.store.calls("renew") == renewals, "its heartbeat goes on"
    last_seq = row.last_seq
    scene.go_on.set()
    assert spawned["step t"].done.wait(PATIENCE_SECONDS)
    assert scene.memory.task("t").last_seq == last_seq


@pytest.mark.holds("knob/no-grace")
@pytest.mark.parametrize("grace", [None, 0.0, -1.0])
def test_no_grace_means_no_end_of_patience(grace: float | None) -> None:
    scene = Scene(grace=grace)
    running = scene.run()

    scene.loop.stop()

    assert not running.done.wait(0.2)
    scene.go_on.set()
    assert running.done.wait(PATIENCE_SECONDS)
    assert not scene.loop.abandoned


class CancellingLoop(WorkerLoop):
    """Cancels its step when told to stop, as ``noeta worker`` does."""

    def __init__(self, *args: Any, **knobs: Any) -> None:
        super().__init__(*args, **knobs)
        self.cancelled = threading.Event()

    def _on_stop(self, lease: Lease) -> None:
        lease.held.stop()
        self.cancelled.set()


@pytest.mark.holds("lost/shutdown-releases")
def test_a_cancelled_step_gives_its_task_back_at_once() -> None:
    """The worker shuts down: release hands each running task back as pending at once."""
    scene = Scene(loop=CancellingLoop)
    running = scene.run()

    scene.loop.stop()
    assert isinstance(scene.loop, CancellingLoop)
    wait_until(scene.loop.cancelled, "the cancelling of the step")
    scene.go_on.set()

    assert running.done.wait(PATIENCE_SECONDS)
    row = scene.memory.task("t")
    assert (row.status, row.worker, row.fail_attempts, row.takeovers) == (Status.PENDING, None, 0, 0)
    last = scene.memory.read("t").entries[-1].event
    assert isinstance(last, ToolFinished) and last.source == "ran"


def test_a_tool_that_hears_of_the_stop_leaves_its_call_to_the_next_owner() -> None:
    class Heeding(Scene):
        def work(self, ctx: ToolContext) -> None:
            self.started.set()
            if ctx.wait(PATIENCE_SECONDS):
                raise StepCancelled

    scene = Heeding(loop=CancellingLoop)
    running = scene.run()

    scene.loop.stop()

    assert running.done.wait(PATIENCE_SECONDS)
    assert scene.memory.task("t").status is Status.PENDING
    assert not any(isinstance(entry.event, ToolFinished) for entry in scene.memory.read("t").entries)


@pytest.mark.holds("member/stop")
def test_a_loop_that_is_idle_stops_at_once() -> None:
    loop = WorkerLoop(bundle(MemoryStore(), engine(Model(()))), poll_interval=PATIENCE_SECONDS * 10)
    running = ThreadWorld().spawn("loop", loop.run_forever)

    loop.stop()

    assert running.done.wait(PATIENCE_SECONDS)


# -- signals -----------------------------------------------------------------------------------------------


class Stopped:
    def __init__(self) -> None:
        self.event = ThreadEvent()

    def stop(self) -> None:
        self.event.set()


@pytest.mark.holds("member/signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_stops_the_loop(number: signal.Signals) -> None:
    before = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)]
    stopped = Stopped()
    restore = install_stop_signals(stopped)
    try:
        os.kill(os.getpid(), number)
        assert stopped.event.wait(PATIENCE_SECONDS)
        os.kill(os.getpid(), number)  # a second one is heard as the first was
    finally:
        restore()

    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_process_that_was_stopped_hears_the_signal_that_comes_with_its_resumption() -> None:
    """The kernel mostly hands it to another thread than the main one, which waits without end: docs in signals.py."""
    program = (
        "import threading, time; from noeta.runtime.signals import install_stop_signals\n"
        "class Stopped:\n"
        "    event = threading.Event()\n"
        "    def stop(self): self.event.set()\n"
        "def spin():\n"
        "    while True: time.sleep(0.001)\n"
        "install_stop_signals(Stopped())\n"
        "for _ in range(8): threading.Thread(target=spin, daemon=True).start()\n"
        "print('up', flush=True); Stopped.event.wait()"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environ) as child:
            assert child.stdout is not None and child.stdout.readline() == b"up\n"
            child.send_signal(signal.SIGSTOP)
            os.waitpid(child.pid, os.WUNTRACED)
            child.send_signal(signal.SIGCONT)
            child.send_signal(signal.SIGTERM)
            try:
                assert child.wait(PATIENCE_SECONDS) == 0
            finally:
                child.kill()


def test_handlers_are_put_back_when_nothing_came() -> None:
    before = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)]
    restore = install_stop_signals(Stopped())
    assert signal.getsignal(signal.SIGTERM) != before[0]

    restore()

    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)] == before


@pytest.mark.holds("member/signals")
def test_off_the_main_thread_signals_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    before = signal.getsignal(signal.SIGTERM)
    done = threading.Event()

    def install() -> None:
        restore = install_stop_signals(Stopped())
        restore()
        done.set()

    with caplog.at_level(logging.WARNING, "noeta.worker"):
        threading.Thread(target=install, daemon=True).start()
        wait_until(done, "the installation")

    assert signal.getsignal(signal.SIGTERM) is before
    assert "main thread" in caplog.text


@pytest.mark.holds("member/signals")
def test_a_running_loop_ends_on_a_signal_and_puts_the_handlers_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    asked = threading.Event()
    memory = MemoryStore()

    def sleep(seconds: float) -> None:
        if not asked.is_set():
            asked.set()
            os.kill(os.getpid(), signal.SIGTERM)

    loop = WorkerLoop(bundle(memory, engine(Model(()))), sleep=sleep)
    loop.run_forever(install_signals=True)

    assert not loop.running
    assert signal.getsignal(signal.SIGTERM) is before


class Down:
    """Implements ``noeta.core.model.Provider``: cannot answer until it is up."""

    def __init__(self) -> None:
        self.up = False
        self.asked = threading.Event()

    def call(self, request: ModelRequest, *, attempt: int) -> ModelReply:
        self.asked.set()
        if self.up:
            return ModelReply("done")
        raise ProviderError("the provider is down")


def test_workers_stopped_during_a_model_call_do_not_use_up_its_attempts() -> None:
    """Rolling restarts while a provider is down: nobody died in the call. Keeps: bounded, same-request."""
    store, provider = MemoryStore(), Down()
    store.create(NewTask("t", "agent", "goal"))
    patient = Engine(provider, retry=RetryPolicy(max_attempts=9, first_seconds=PATIENCE_SECONDS * 10, max_seconds=3600))
    restarts = 2 * texts.MAX_MODEL_ATTEMPTS

    for _ in range(restarts):
        provider.asked.clear()
        loop = CancellingLoop(bundle(store, patient), lease_seconds=600, poll_interval=0.01)
        running = ThreadWorld().spawn("loop", loop.run_forever)
        wait_until(provider.asked, "the model call")
        loop.stop()
        assert running.done.wait(PATIENCE_SECONDS)
        assert store.task("t").status is Status.PENDING
    provider.up = True
    assert WorkerLoop(bundle(store, patient)).tick()

    events = [entry.event for entry in store.read("t").entries]
    calls = [event for event in events if isinstance(event, ModelCalled)]
    assert [event.attempt for event in calls] == [1] * (restarts + 1)
    assert len({event.request_hash for event in calls}) == 1
    assert events[-1] == TaskCompleted("done")
    entries = [LogEntry("t", e.seq, e.epoch, e.at, e.event, "hash") for e in store.read("t").entries]
    report = check_all(gather(RunFacts(), log=entries))
    assert report["bounded"].verdict is Verdict.VALID
    assert report["calls-pair"].verdict is Verdict.VALID


def test_a_signal_for_a_forked_child_is_not_one_for_its_parent() -> None:
    """A tool that ends a process of its own (multiprocessing forks it) must neither miss it nor stop the worker."""
    program = (
        "import multiprocessing, os, signal, sys, threading\n"
        "from noeta.runtime.signals import install_stop_signals\n"
        "class Stopped:\n"
        "    event = threading.Event()\n"
        "    def stop(self): self.event.set()\n"
        "install_stop_signals(Stopped())\n"
        "reader, writer = os.pipe()\n"
        "def child():\n"
        "    os.write(writer, b'up')\n"
        "    threading.Event().wait()\n"
        "process = multiprocessing.get_context('fork').Process(target=child, daemon=True)\n"
        "process.start()\n"
        "os.read(reader, 2)\n"
        "process.terminate()\n"
        "process.join(20)\n"
        "print(process.exitcode, Stopped.event.is_set(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "print(Stopped.event.wait(20))"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)

    assert done.stdout.split() == [str(-signal.SIGTERM), "False", "True"], done.stderr


class Failing(Stopped):
    """Fails the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.failed = threading.Event()

    def stop(self) -> None:
        if not self.failed.is_set():
            self.failed.set()
            raise RuntimeError("planted bug")
        super().stop()


def test_a_stop_that_fails_keeps_no_later_signal_from_being_heard() -> None:
    stopped = Failing()
    restore = install_stop_signals(stopped)
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(stopped.failed, "the first stop")
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.event.wait(PATIENCE_SECONDS)
    finally:
        restore()


def test_putting_the_handlers_back_twice_is_harmless() -> None:
    before = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)]
    restore = install_stop_signals(Stopped())

    restore()
    restore()

    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)] == before
