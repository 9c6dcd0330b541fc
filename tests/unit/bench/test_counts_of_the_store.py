"""Two benches small enough for every run: counts, never times."""

from __future__ import annotations

from functools import partial

import pytest
from psycopg import conninfo

from bench import round_trips
from bench.buffers import Scene, measure_scene
from bench.site import own_server, place
from noeta.testing.postgres import PostgresSource, Server


def test_every_verb_is_one_round_trip(postgres_server: Server) -> None:
    if str(conninfo.conninfo_to_dict(postgres_server.dsn).get("host", "/")).startswith("/"):
        pytest.skip("the relay needs a server with a TCP address")

    found = round_trips.measure(partial(place, postgres_server), quick=True)

    assert [f"{f.name}: {f.high}" for f in found if (f.low, f.high) != (1, 1)] == []
    assert len(found) == 20


def test_a_claim_and_an_append_touch_few_buffers(postgres_source: PostgresSource) -> None:
    if postgres_source.dsn is not None:
        pytest.skip("counting needs a server whose settings are ours")

    with own_server(postgres_source) as server, place(server) as somewhere:
        found = measure_scene(somewhere, Scene("few", idle=1_000, churned=200, held_snapshot=True), samples=10)

    assert [f.name for f in found if f.target] == ["claim, few", "append, few"]
    assert [f"{f.name}: {f.median}" for f in found if not f.holds] == []
