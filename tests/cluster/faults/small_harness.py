"""A harness to be killed: `python -m tests.cluster.faults.small_harness <dsn> <schema> <directory>`.

It makes what a storm makes — schema, scratch directory, a proxy, workers, one of them stopped — says so, and waits.
Ctrl-C ends it in order; a second one at once.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import psycopg
from psycopg import sql

from noeta.backends.stores.pg_migrate import migrate
from noeta.chaos.cluster import Cluster
from noeta.chaos.config import Config
from noeta.chaos.proxy import Wire, resolve
from noeta.chaos.reaper import Reapers, drop_schema


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite that runs in a shell's background ignores it
    dsn, schema, directory = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    with Reapers() as reapers:
        number = reapers.schema(dsn, schema)
        reapers.directory(directory)
        directory.mkdir()
        migrate(dsn, schema)
        config = Config(
            seed="t", tasks=1, seconds=60, run_dir=directory, schema=schema, address=dsn, workers=3, concurrency=2
        )
        try:
            with (
                Wire(resolve(dsn), directory / "cuts.jsonl", directory / "wire.log", reapers) as wire,
                Cluster(config, reapers, address_of=wire.address_of) as cluster,
            ):
                cluster.start()
                while not all(cluster.answers(worker) for worker in cluster.workers.values()):
                    time.sleep(0.02)
                cluster.workers["w2"].signal(signal.SIGSTOP)
                with psycopg.connect(dsn, autocommit=True) as session:
                    # A session of ours that holds a lock in the schema when we are killed.
                    with session.transaction():
                        session.execute(sql.SQL("LOCK TABLE {}.task IN ROW SHARE MODE").format(sql.Identifier(schema)))
                        workers = [worker.pid for worker in cluster.workers.values()]
                        ready = {"reapers": reapers.pids, "workers": workers, "proxy": wire.pid, "port": wire.port}
                        print(json.dumps(ready), flush=True)
                        for line in sys.stdin:
                            if line.strip() == "fail":
                                raise RuntimeError("as asked")
                            if line.strip() == "reapers":
                                print(json.dumps({"reapers": reapers.pids, "replaced": reapers.replaced}), flush=True)
        finally:
            drop_schema(dsn, schema)
            reapers.withdraw(number)


if __name__ == "__main__":
    main()
