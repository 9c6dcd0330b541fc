"""`noeta certify`: whether a store that somebody wrote keeps every promise of the contract."""

from __future__ import annotations

import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from noeta.core.errors import BadInput

if TYPE_CHECKING:
    from noeta.chaos.certify import Asked

HARNESS_ERROR: Final = 3
NEEDED: Final = ("pytest", "hypothesis", "greenlet")


def certify(
    store: Annotated[
        str, typer.Argument(help="MODULE:FUNCTION that makes your store (docs/guide), or memory, sqlite, postgres.")
    ],
    seed: Annotated[str | None, typer.Option(help="Repeats what is drawn. Default: a fresh random one.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this part, or this line of one (contract:fence); repeatable.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Less of everything; for between two edits.")] = False,
    storm_seconds: Annotated[
        str | None, typer.Option(help="How long the storm blows. Default: 30, with --quick 12.")
    ] = None,
    no_storm: Annotated[bool, typer.Option("--no-storm", help="Without a storm; the verdict is then unknown.")] = False,
    stop_at_first: Annotated[
        bool, typer.Option("--stop-at-first", help="Play no further part after one with a failed line.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write the card to this file, as JSON.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the card to this file, as JUnit XML.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the directory of the run, and say where it is.")] = False,
) -> None:
    """Certify a store: contract, model, crash points, faults, processes and a storm; one card, one verdict.

    Exit codes: 0 valid, 1 invalid, 2 unknown (something was not judged), 3 the harness failed, 64 bad usage.
    """
    from noeta.chaos.asked import seed_of, span
    from noeta.chaos.certify.asked import (
        QUICK_STORM_SECONDS,
        STORM_SECONDS,
        STORM_SECONDS_MAX,
        STORM_SECONDS_MIN,
        Asked,
        only_of,
    )
    from noeta.chaos.seeds import fresh_seed

    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise BadInput("certify", f"needs {', '.join(missing)}: pip install 'noeta[certify]'")
    if no_storm and storm_seconds is not None:
        raise BadInput("--no-storm", "excludes --storm-seconds")
    blows = QUICK_STORM_SECONDS if quick else STORM_SECONDS
    if storm_seconds is not None:
        blows = span("--storm-seconds", storm_seconds, STORM_SECONDS_MIN, STORM_SECONDS_MAX)
    for name, path in (("--json", json), ("--junit", junit)):
        if path is not None and not path.absolute().parent.is_dir():
            raise BadInput(name, f"expected a file in a directory that is there, found {str(path)!r}")
    asked = Asked(
        store=store,
        seed=fresh_seed() if seed is None else seed_of(seed),
        storm_seconds=0.0 if no_storm else blows,
        quick=quick,
        only=tuple(only_of(one) for one in only or ()),
        stop_at_first=stop_at_first,
        keep=keep,
        json=json,
        junit=junit,
    )
    raise typer.Exit(_certified(asked))


def _certified(asked: Asked) -> int:
    """The boundary of the process: an error of the harness says nothing about the store."""
    from noeta.chaos.certify import certify as play
    from noeta.testing.postgres import NoPostgres

    try:
        card = play(asked, typer.echo)
    except BadInput:
        raise
    except NoPostgres as error:
        print(f"noeta certify: {error}", file=sys.stderr)
        return HARNESS_ERROR
    except Exception:
        traceback.print_exc()
        return HARNESS_ERROR
    if asked.json is not None:
        asked.json.write_text(card.as_json())
    if asked.junit is not None:
        asked.junit.write_text(card.as_junit())
    typer.echo(card.last_line())
    return card.exit_code
