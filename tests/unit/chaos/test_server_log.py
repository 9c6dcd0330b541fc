"""Deadlocks are counted in the log of a real server."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg

from noeta.chaos.server_log import deadlocks
from noeta.testing.postgres import PostgresSource, Server


def test_a_real_deadlock_is_counted(postgres_source: PostgresSource, tmp_path: Path) -> None:
    with Server(postgres_source, log_path=tmp_path / "server.log") as server:
        with psycopg.connect(server.dsn, autocommit=True) as setup:
            setup.execute("CREATE TABLE public.pair (id int PRIMARY KEY)")
            setup.execute("INSERT INTO public.pair VALUES (1), (2)")
        assert deadlocks(server.log_path) == 0
        both_hold = threading.Barrier(2)

        def lock(first: int, second: int) -> None:
            with psycopg.connect(server.dsn) as connection:
                connection.execute("SELECT 1 FROM public.pair WHERE id = %s FOR UPDATE", [first])
                both_hold.wait(30)
                try:
                    connection.execute("SELECT 1 FROM public.pair WHERE id = %s FOR UPDATE", [second])
                except psycopg.errors.DeadlockDetected:
                    connection.rollback()

        threads = [threading.Thread(target=lock, args=pair) for pair in ((1, 2), (2, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert deadlocks(server.log_path) == 1
