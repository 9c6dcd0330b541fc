"""What the Postgres store checks before it connects, and what a process knows about the claim index."""

from __future__ import annotations

import contextlib
import math
import traceback
from typing import Any

import pytest

from noeta import cli
from noeta.backends.open import open_store
from noeta.backends.stores.pg_claims import BEGINNING, FLOOR_MARGIN_MICROS, ClaimBounds
from noeta.backends.stores.pg_connection import Settings
from noeta.backends.stores.pg_migrate import migrate
from noeta.backends.stores.postgres import PostgresStore
from noeta.core.errors import BadInput
from noeta.testing.postgres.source import address_of

NOW = 1_700_000_000_000_000

MALFORMED = {
    "an option nobody knows": "postgresql://u:pw@h/db?passwort=SECRET",
    "a word alone": "host=h SECRET",
    "an open quote": "host=h password='SECRET",
    "a slash in the password": "postgresql://u:SECRET/x@h/db",
    "an at sign in the password": "postgresql://u:p@SECRET@h/db",
    "a bracket": "postgresql://u:p@[SECRET/db",
    "a lone surrogate": "host=SECRET\ud800",
}


def learn(bounds: ClaimBounds, store_now: int, floors: dict[str, int] | None = None) -> None:
    search = bounds.search(["q"], 60.0, 0.0)
    bounds.learn(
        search,
        floors=floors or {},
        queues=None,
        probed=False,
        sweeps=False,
        store_now=store_now,
        took_seconds=0.0,
        now=0.0,
    )


def floor(bounds: ClaimBounds) -> int:
    bounds.search(["q"], 60.0, 0.0)  # the first after a second starts from the beginning
    return bounds.search(["q"], 60.0, 0.0).floors[0]


def test_answers_taken_in_out_of_order_forget_no_floor() -> None:
    """Two threads, 100 µs apart."""
    bounds = ClaimBounds()
    learn(bounds, NOW, {"q": NOW})

    learn(bounds, NOW - 100)
    learn(bounds, NOW - FLOOR_MARGIN_MICROS)

    assert floor(bounds) == NOW - FLOOR_MARGIN_MICROS


def test_a_store_clock_that_went_back_forgets_every_floor_once() -> None:
    bounds = ClaimBounds()
    learn(bounds, NOW, {"q": NOW})
    learn(bounds, NOW - 100)  # does not lower what is compared with

    back = NOW - FLOOR_MARGIN_MICROS - 1
    learn(bounds, back)
    assert floor(bounds) == BEGINNING

    learn(bounds, back + 1, {"q": back})
    learn(bounds, back + 2)
    assert floor(bounds) == back - FLOOR_MARGIN_MICROS


@pytest.mark.parametrize(("first", "second"), [(["busy"], ["calm"]), (["busy"], None), (None, ["calm"])])
def test_a_probe_of_other_queues_does_not_stand_for_one_of_these(
    first: list[str] | None, second: list[str] | None
) -> None:
    """Keeps: never-stuck."""
    bounds = ClaimBounds()
    search = bounds.search(first, 60.0, 100.0)
    assert search.probe
    bounds.learn(search, floors={}, queues=None, probed=True, sweeps=False, store_now=NOW, took_seconds=0.0, now=100.0)

    assert not bounds.search(first, 60.0, 119.0).probe
    assert bounds.search(second, 60.0, 101.0).probe
    assert bounds.search(first, 60.0, 120.0).probe


@pytest.mark.parametrize("seconds", [0.0, -1.0, 0.0001, math.nan, math.inf, 3_601.0])
def test_a_timeout_out_of_its_bounds_is_bad_input(seconds: float) -> None:
    for field in ("statement_timeout", "lock_timeout"):
        with pytest.raises(BadInput) as refused:
            PostgresStore("host=h", **{field: seconds})  # type: ignore[arg-type]
        assert refused.value.field == field
    with pytest.raises(BadInput):
        Settings(answer_slack_seconds=seconds if seconds != 0.0001 else 0.0)


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_connection_string_is_refused_and_never_shown(name: str) -> None:
    for attempt in (lambda dsn: migrate(dsn), lambda dsn: PostgresStore(dsn)):
        with pytest.raises(BadInput) as refused:
            attempt(MALFORMED[name])
        assert refused.value.field == "store"
        shown = "".join(traceback.format_exception(refused.value))
        assert "SECRET" not in shown.replace(MALFORMED[name], "")


def test_the_command_exits_64_for_a_malformed_connection_string(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["migrate", "--store", MALFORMED["an open quote"]]) == cli.BAD_USAGE
    shown = capsys.readouterr()
    assert "store:" in shown.err
    assert "SECRET" not in shown.err + shown.out


def test_an_address_shows_a_port_only_if_it_is_one() -> None:
    assert address_of("postgresql://u:p@h:5433/db") == "h:5433"
    assert address_of("host=h") == "h:5432"
    assert "SECRET" not in address_of("postgresql://u:SECRET/x@h/db")


def test_the_store_of_a_worker_is_pooled_and_timed_as_told() -> None:
    with contextlib.closing(open_store("host=h", pooled=True, statement_timeout=30.0)) as store:
        assert isinstance(store, PostgresStore)
        assert store._settings.pooled
        assert store._settings.statement_timeout_seconds == 30.0


def test_the_worker_hands_on_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}

    def take(address: str, **options: object) -> None:
        told.update(options)
        raise BadInput("store", "stop here")

    monkeypatch.setattr("noeta.commands.worker.open_store", take)
    worker = ["worker", "--store", "host=h", "--app", "tests.shutdown_matrix.app:make", "--concurrency", "3"]

    assert cli.run([*worker, "--pooled", "--statement-timeout", "20"]) == cli.BAD_USAGE
    assert told == {"schema": "noeta", "max_connections": 7, "pooled": True, "statement_timeout": 20.0}
    assert cli.run(worker) == cli.BAD_USAGE
    assert told == {"schema": "noeta", "max_connections": 7, "pooled": False, "statement_timeout": 5.0}


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "60"])
def test_the_worker_refuses_a_statement_timeout_that_cannot_be(
    seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["worker", "--store", "host=h", "--app", "x:y", "--lease", "60", "--statement-timeout", seconds]

    assert cli.run(asked) == cli.BAD_USAGE
    assert "--statement-timeout: " in capsys.readouterr().err
