"""The locks of a family under load: processes that end children, cancel parents and children, post and renew.

Target: not one deadlock, counted by the server, and not one call that the store gave up. So that a count of none
means something, the same load also runs with each ending task locking its own row before its family's: there the same
counter must find some. Rates and the worst call by verb are told beside it.
"""

from __future__ import annotations

import multiprocessing
from functools import reduce
from typing import Final

import psycopg.sql

from bench import family_load
from bench.counters import BufferCounter, deadlocks
from bench.family_load import Tally
from bench.report import Figure, Target, figure
from bench.site import Place, Places

NAME: Final = "family"
PROCESSES: Final = 4
SECONDS: Final = 60.0
SECONDS_QUICK: Final = 5.0
FAMILIES: Final = 3
"""Few, so that the processes meet."""

CONTROL_SECONDS: Final = 20.0
CONTROL_FAMILIES: Final = 1
CONTROL_PROCESSES: Final = 6
NONE: Final = Target("at most", 0)
SOME: Final = Target("at least", 1)
JOIN_SECONDS_MAX: Final = 60.0
_OWN_ROW_FIRST: Final = """
CREATE OR REPLACE FUNCTION {schema}.lock_family_1(p_ids text[], p_parent text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
BEGIN
    PERFORM 1 FROM {schema}.task t WHERE t.id = p_parent FOR UPDATE;
    PERFORM 1 FROM {schema}.task t WHERE t.id = ANY (p_ids) OR t.parent = p_parent ORDER BY t.id FOR UPDATE;
    RETURN true;
END
$noeta$
"""


def measure(places: Places, *, quick: bool) -> list[Figure]:
    """The load, and its control."""
    seconds = SECONDS_QUICK if quick else SECONDS
    with places() as place:
        found = figures(*run(place, seconds, FAMILIES, PROCESSES), seconds)
    with places() as place:
        with place.session() as session:
            session.execute(psycopg.sql.SQL(_OWN_ROW_FIRST).format(schema=psycopg.sql.Identifier(place.schema)))
        control, aborted, _ = run(place, CONTROL_SECONDS, CONTROL_FAMILIES, CONTROL_PROCESSES)
    what = f"with the own row locked first, {CONTROL_SECONDS:g} s"
    return [
        *found,
        figure(NAME, f"deadlocks {what}", "deadlocks", [aborted], SOME),
        figure(NAME, f"calls {what}", "1/s", [sum(control.calls.values()) / CONTROL_SECONDS]),
    ]


def figures(tally: Tally, aborted: int, anew: int, seconds: float) -> list[Figure]:
    """What must not be, then how much was done, then the worst call of each verb."""
    calls = sum(tally.calls.values())
    return [
        figure(NAME, f"deadlocks, {PROCESSES} processes, {seconds:g} s", "deadlocks", [aborted], NONE),
        figure(NAME, "transactions run again by the store", "transactions", [tally.retries], NONE),
        figure(NAME, "calls that the store gave up", "calls", [tally.unavailable], NONE),
        figure(NAME, "ends sent anew, a child having been born", "statements", [anew]),
        figure(NAME, "calls", "1/s", [calls / seconds]),
        *(
            figure(NAME, f"worst {verb}, of {tally.calls[verb]:,}", "ms", [tally.worst[verb] * 1000])
            for verb in sorted(tally.calls)
        ),
    ]


def run(place: Place, seconds: float, families: int, count: int) -> tuple[Tally, int, int]:
    """So many processes on so many families for so long: their tally, the deadlocks, and the ends sent anew.

    Raises:
        EOFError: a process died.
    """
    context = multiprocessing.get_context("spawn")  # a fork would inherit our connections
    generations = context.Array("q", families)
    ready = context.Barrier(count)
    with place.session() as session:
        ending = BufferCounter(session, place, "append_2")
        before = deadlocks(session, place)
        counted = ending.totals()
        pipes = [context.Pipe(duplex=False) for _ in range(count)]
        processes = [
            context.Process(
                target=family_load.run,
                args=(place.counted_dsn, place.schema, f"load-{number}", seconds, generations, ready, sender),
            )
            for number, (_, sender) in enumerate(pipes)
        ]
        try:
            for process in processes:
                process.start()
            for _, sender in pipes:
                sender.close()  # so that a dead process is an end of file
            tallies: list[Tally] = [receiver.recv() for receiver, _ in pipes]
        finally:
            for process in processes:
                process.join(JOIN_SECONDS_MAX)
                if process.is_alive():
                    process.kill()
        tally = reduce(Tally.plus, tallies)
        aborted = deadlocks(session, place) - before
        asked = sum(tally.calls.get(verb, 0) for verb in ("end of a child", "end of a root", "birth in the background"))
        return tally, aborted, ending.totals().since(counted).calls - asked
