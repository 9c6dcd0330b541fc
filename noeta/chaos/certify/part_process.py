"""The parent's side of one part: a process of its own, its lines as they come, and a bound on its time."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from invariants import Verdict
from noeta.chaos.certify.asked import Order
from noeta.chaos.certify.card import Line
from noeta.chaos.reaper import Reapers, kill_processes
from noeta.testing.postgres.guard import started_at

HARNESS: Final = "harness"
"""The subject of a line that says that a part did not come to its end."""

SECONDS_MAX: Final = 1_200.0
"""A part that takes longer hangs."""

STORM_SECONDS_MAX: Final = 240.0
"""So long a storm may take beyond its own time: it drains for a minute and a half at the most, and is judged."""

SAID_LINES_MAX: Final = 25

_line: Final = msgspec.json.Decoder(Line)


def lines_of(order: Order, reapers: Reapers, environ: Mapping[str, str]) -> Iterator[Line]:
    """Play a part; its lines, and one more if it died or hung. Nothing of it runs afterwards."""
    log = Path(order.root) / "said.log"
    answers, answering = os.pipe()
    lifeline, held_end = os.pipe()
    with log.open("wb") as said:
        child = subprocess.Popen(
            [
                *(sys.executable, "-m", "noeta.chaos.certify.child"),
                *(msgspec.json.encode(order).decode(), str(answering), str(lifeline)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            pass_fds=(answering, lifeline),
            start_new_session=True,  # Ctrl-C is for us: we end it in our own time
            env=environ,
        )
    start = started_at(child.pid)
    number = reapers.process(child.pid)
    os.close(answering)
    os.close(lifeline)
    allowed = STORM_SECONDS_MAX + order.storm_seconds if order.part == "storm" else SECONDS_MAX
    deadline = time.monotonic() + allowed
    try:
        yield from _heard(answers, deadline)
        hangs = time.monotonic() > deadline
        if hangs:
            why = f"it did not come to its end within {allowed:g} s"
            yield Line(order.part, HARNESS, "the part came to its end", Verdict.UNKNOWN, why=why)
        elif child.wait() != 0:
            told = log.read_text(errors="replace").strip().splitlines()
            why = "\n".join([f"its process ended with {child.returncode}, saying:", *told[-SAID_LINES_MAX:]])
            yield Line(order.part, HARNESS, "the part came to its end", Verdict.UNKNOWN, why=why)
    finally:
        if child.poll() is None:
            kill_processes([(child.pid, start)])
            child.wait()
        reapers.withdraw(number)
        os.close(answers)
        os.close(held_end)


def _heard(answers: int, deadline: float) -> Iterator[Line]:
    """Lines until the pipe is closed, or the time is over."""
    torn = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([answers], [], [], left)[0]:
            return
        data = os.read(answers, 65_536)
        if not data:
            return
        *whole, torn = (torn + data).split(b"\n")
        for raw in whole:
            yield _line.decode(raw)
