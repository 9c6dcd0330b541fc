"""What is counted, and when: messages however they are cut, rounds however they turn, calls and not guesses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from itertools import count as counting
from typing import Any, cast

import pytest

from bench.counters import BufferCounter, WatchedBounds
from bench.hot import SCHEDULES
from bench.rates import WARM_UP, figures, interleave
from bench.round_trips import CALLS, count
from bench.round_trips import WARM_UP as CALLS_BEFORE
from bench.site import Place, Session
from bench.wire import READY, MessageCounter, Relay
from noeta.backends.stores.pg_claims import BEGINNING

STREAM = b"1\x00\x00\x00\x04" + b"D\x00\x00\x00\x09ZZZZZ" + b"Z\x00\x00\x00\x05I" + b"Z\x00\x00\x00\x05I"


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 5, 7, len(STREAM)])
def test_messages_are_counted_however_the_stream_is_cut(chunk_bytes: int) -> None:
    counter = MessageCounter()

    for at in range(0, len(STREAM), chunk_bytes):
        counter.feed(STREAM[at : at + chunk_bytes])

    assert dict(counter.seen) == {"1": 1, "D": 1, READY: 2}


def test_the_relay_counts_a_message_before_the_client_has_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                while connection.recv(1):
                    connection.sendall(b"Z\x00\x00\x00\x05I")

        host, port = server.getsockname()
        thread = threading.Thread(target=answer)
        thread.start()
        with Relay(f"host={host} port={port}") as relay:
            settings = dict(part.split("=") for part in relay.dsn.split())
            with socket.create_connection((settings["host"], int(settings["port"]))) as client:
                for expected in (1, 2, 3):
                    client.sendall(b"?")
                    assert client.recv(6, socket.MSG_WAITALL) == b"Z\x00\x00\x00\x05I"

                    assert relay.round_trips == expected
                    assert relay.connections == 1
        thread.join()


class Trips:
    """Stands for a relay: a call of ours adds what the wire would show."""

    def __init__(self) -> None:
        self.round_trips = 0

    def add(self, number: int) -> None:
        self.round_trips += number


def test_preparation_and_warm_up_are_not_counted() -> None:
    trips = Trips()
    prepared: Iterator[int] = iter([3, 2, *[1] * CALLS])

    found = count(lambda: trips.add(next(prepared)), lambda: trips.add(10), cast("Relay", trips))

    assert CALLS_BEFORE == 2
    assert found == [1] * CALLS


def test_rounds_turn_and_the_warm_up_is_thrown_away() -> None:
    ran: list[str] = []
    ticks = counting()

    def contestant(name: str, units: int) -> int:
        ran.append(name)
        return units

    rates = interleave(
        {"a": lambda: contestant("a", 4), "b": lambda: contestant("b", 2)}, rounds=3, clock=lambda: float(next(ticks))
    )

    assert rates == {"a": [4.0] * 3, "b": [2.0] * 3}
    assert "".join(ran) == "abbaabbaab"[: 2 * (WARM_UP + 3)]


def test_rates_are_told_as_ratios_of_the_same_round() -> None:
    found = {f.name: f for f in figures({"insert": [100, 10], "append": [50, 5], "bare call": [50, 10]})}

    assert found["append / insert"].median == 0.5
    assert (found["append / bare call"].low, found["append / bare call"].high) == (0.5, 1.0)
    assert found["bare call / insert"].target is None
    assert [str(f.target) for f in found.values() if f.target] == ["at least 0.7", "at least 0.4"]


class Rows:
    """Stands for a session whose counters move as given."""

    def __init__(self, *totals: tuple[int, int]) -> None:
        self._totals = iter(totals)

    def execute(self, statement: str, values: list[Any]) -> Rows:
        assert values == ['"place".claim_1(']
        return self

    def fetchone(self) -> tuple[int, int]:
        return next(self._totals)


def test_a_call_is_charged_what_it_touched_alone() -> None:
    counter = BufferCounter(cast("Session", Rows((7, 100), (8, 122))), Place("", "place"), "claim_1")

    assert counter.count(lambda: None).touched == 22


def test_a_figure_of_two_calls_is_refused() -> None:
    counter = BufferCounter(cast("Session", Rows((7, 100), (9, 144))), Place("", "place"), "claim_1")

    with pytest.raises(ValueError, match="expected one call"):
        counter.count(lambda: None)


def test_watched_bounds_say_where_a_claim_looked() -> None:
    bounds = WatchedBounds()

    first = bounds.search(["bench"], 600.0, 0.0)
    looked_everywhere = not bounds.was_from_bound
    bounds.learn(
        first,
        floors={"bench": 5_000_000},
        queues=None,
        probed=False,
        sweeps=False,
        store_now=6_000_000,
        took_seconds=0.0,
        now=0.1,
    )
    bounds.search(["bench"], 600.0, 0.2)
    looked_from_bound = bounds.was_from_bound
    bounds.from_beginning = True
    forced = bounds.search(["bench"], 600.0, 0.3)

    assert looked_everywhere
    assert looked_from_bound
    assert forced.floors == (BEGINNING,)
    assert not bounds.was_from_bound


def test_of_a_lease_all_renewals_but_one_can_stay_hot() -> None:
    assert [round(schedule.share_possible, 3) for schedule in SCHEDULES] == [0.667, 0.95]
