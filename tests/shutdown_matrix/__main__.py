"""`python -m tests.shutdown_matrix`: what became of a worker and its task, for every signal in every situation.

Prints tables in Markdown; exit code 1 if a cell breaks its rule.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noeta.testing.postgres import NoPostgres, Server, find_source
from tests.shutdown_matrix.matrix import tables, try_all
from tests.shutdown_matrix.places import Place, PostgresPlace, SqlitePlace


@contextmanager
def _places(names: str) -> Iterator[list[Place]]:
    places: list[Place] = []
    if "sqlite" in names:
        places.append(SqlitePlace())
    if "postgres" not in names:
        yield places
        return
    with Server(find_source(os.environ)) as server:
        yield [*places, PostgresPlace(server)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.shutdown_matrix", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few cells, in half a minute")
    parser.add_argument("--store", default="sqlite,postgres", help="sqlite, postgres, or both")
    asked = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder, _places(asked.store) as places:
            outcomes = try_all(
                places, Path(folder), quick=asked.quick, tell=lambda line: print(line, file=sys.stderr, flush=True)
            )
    except NoPostgres as error:
        print(f"no Postgres: {error} (--store sqlite goes without)", file=sys.stderr)
        return 1
    print(tables(outcomes))
    return 1 if any(outcome.broken for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
