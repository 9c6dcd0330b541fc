"""How a worker process hears signals, from its start-up to its end. The ways of whole processes: tests/cluster."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from noeta.commands.shutdown import LEFT_TO_LEASES, SAYING_SECONDS, TOGETHER_SECONDS, Shutdown
from tests.actors import PATIENCE_SECONDS, wait_until


class Scene:
    """A shutdown whose process does not end, and a service that counts how often it is stopped."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.codes: list[int] = []
        self.left = threading.Event()
        self.stops = 0
        self.stopped = threading.Event()
        self.shutdown = Shutdown(leave=self.leave, now=lambda: self.seconds)

    def leave(self, code: int) -> None:
        self.codes.append(code)
        self.left.set()

    def stop(self) -> None:
        self.stops += 1
        self.stopped.set()


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def blocked_log() -> Iterator[Callable[[], None]]:
    """Gives what blocks every line from then on, as a full pipe that nobody reads does."""
    go_on = threading.Event()
    logger = logging.getLogger("noeta.worker")
    handlers = logger.handlers[:]

    class Blocked(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            go_on.wait(PATIENCE_SECONDS)

    yield lambda: logger.addHandler(Blocked())
    logger.handlers[:] = handlers
    go_on.set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_during_start_up_ends_the_process_at_once(scene: Scene, number: int) -> None:
    scene.shutdown.told(number)

    assert scene.codes == [0]


def test_the_first_signal_stops_the_service_and_one_at_the_same_time_is_the_same_wish(scene: Scene) -> None:
    """https://github.com/janbjorge/pgqueuer/issues/630: SIGINT and SIGTERM together."""
    scene.shutdown.runs(scene)

    scene.shutdown.told(signal.SIGINT)
    scene.seconds += TOGETHER_SECONDS / 2
    scene.shutdown.told(signal.SIGTERM)

    assert (scene.stops, scene.codes) == (1, [])


def test_a_second_signal_ends_the_process_without_waiting(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.shutdown.runs(scene)
    scene.shutdown.told(signal.SIGTERM)
    scene.seconds += TOGETHER_SECONDS

    with caplog.at_level(logging.WARNING, "noeta.worker"):
        scene.shutdown.told(signal.SIGINT)

    assert (scene.stops, scene.codes) == (1, [LEFT_TO_LEASES])
    assert "SIGINT again: exiting at once; tasks are left to their leases" in caplog.text


def test_the_log_has_the_signal_before_what_it_leads_to() -> None:
    """Also if the log takes its time, and the process ends at once: the line is there when the service hears of it."""
    order: list[str] = []
    scene = Scene()

    class Noted(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            order.append("stopped, and then" if scene.stopped.wait(SAYING_SECONDS / 4) else "not stopped yet")
            order.append(record.getMessage())

    noted = Noted()
    scene.shutdown.runs(scene)
    logging.getLogger("noeta.worker").addHandler(noted)
    try:
        scene.shutdown.told(signal.SIGTERM)
    finally:
        logging.getLogger("noeta.worker").removeHandler(noted)

    assert order == ["not stopped yet", "SIGTERM: stopping, and giving every task back; once more to exit at once"]
    assert scene.stops == 1


@pytest.mark.usefixtures("blocked_log")
def test_a_log_that_nobody_reads_keeps_no_signal_from_being_heard(
    scene: Scene, blocked_log: Callable[[], None]
) -> None:
    blocked_log()
    scene.shutdown.runs(scene)

    scene.shutdown.told(signal.SIGTERM)
    scene.seconds += TOGETHER_SECONDS
    scene.shutdown.told(signal.SIGTERM)

    assert (scene.stops, scene.codes) == (1, [LEFT_TO_LEASES])


def test_a_signal_at_the_very_end_changes_nothing_of_what_is_said_and_done(scene: Scene) -> None:
    scene.shutdown.runs(scene)
    scene.shutdown.told(signal.SIGTERM)
    scene.shutdown.ends(0)

    scene.seconds += TOGETHER_SECONDS
    scene.shutdown.told(signal.SIGTERM)

    assert scene.codes == [0]


def test_a_process_that_leaves_a_step_behind_does_not_wait_for_the_interpreter(scene: Scene) -> None:
    scene.shutdown.runs(scene)

    scene.shutdown.ends(LEFT_TO_LEASES)

    assert scene.codes == [LEFT_TO_LEASES]


def test_a_real_signal_is_heard_also_when_the_app_took_it_for_itself(scene: Scene) -> None:
    before = signal.getsignal(signal.SIGHUP)
    with scene.shutdown:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # while it is imported
        signal.set_wakeup_fd(-1)
        scene.shutdown.runs(scene)
        os.kill(os.getpid(), signal.SIGHUP)
        wait_until(scene.stopped, "the stop")
        scene.seconds += TOGETHER_SECONDS
        os.kill(os.getpid(), signal.SIGHUP)
        wait_until(scene.left, "the end")

    assert scene.stops == 1
    signal.signal(signal.SIGHUP, before)


def test_what_is_wrong_at_start_up_leaves_the_handlers_as_they_were(scene: Scene) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]

    with contextlib.suppress(ValueError), scene.shutdown:
        during = signal.getsignal(signal.SIGTERM)
        raise ValueError("bad option")

    assert during != before[0]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)] == before


def test_under_nohup_a_closed_terminal_is_none_of_our_business() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Scene().shutdown:
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
