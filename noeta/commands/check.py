"""`noeta check`: judge a run directory again, or a live store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from noeta.commands.tasks.place import UNREACHABLE
from noeta.core.errors import BadInput

if TYPE_CHECKING:
    from invariants import Report, Verdict

_DSN: Final = re.compile(r"postgres(ql)?://|\s*[a-z_]+\s*=\s*\S", re.IGNORECASE)
"""An address, or a libpq string like ``host=… dbname=…``."""


def check(
    target: Annotated[str, typer.Argument(help="A run directory (runs/latest), or postgresql://… of a live store.")],
    schema: Annotated[str, typer.Option(help="The live store's schema.")] = "noeta",
) -> None:
    """Judge by the laws what a run left behind, or, read-only and in pages, a live Postgres store.

    Of a live store only the laws that need nothing but logs and rows are judged. Exit codes: 0 valid, 1 invalid,
    2 unknown (nothing seen is unknown), 3 the store cannot be asked or the check itself failed, 64 bad usage.
    """
    code = _live(target, schema) if _DSN.match(target) else _directory(Path(target))
    raise typer.Exit(code)


def _directory(path: Path) -> int:
    from noeta.chaos.evidence_dir import RUN, RunDir
    from noeta.chaos.report import anomalies, last_lines, summary
    from noeta.chaos.verdicts import judge

    if not (path / RUN).is_file():
        raise BadInput("target", f"expected a run directory with a {RUN}, or postgresql://…, found {str(path)!r}")
    judgement = judge(RunDir(path))
    for line in (*summary(judgement), *anomalies(judgement), *last_lines(judgement, str(path))):
        typer.echo(line)
    return judgement.exit_code


def _live(dsn: str, schema: str) -> int:
    import psycopg

    from invariants import check_all, explain_report
    from noeta.chaos.live_evidence import LIVE_LAWS, LiveEvidence
    from noeta.testing.postgres.source import address_of

    try:
        where = address_of(dsn)
    except psycopg.Error:
        raise BadInput("target", "this connection string cannot be read") from None
    try:
        with LiveEvidence(dsn, schema) as evidence:
            evidence.check_schema()
            report = check_all(evidence, LIVE_LAWS)
            _, laws = explain_report(report, evidence.run).split("\n", 1)  # its verdict is that of a storm
            typer.echo(f"{report.tasks} {'task' if report.tasks == 1 else 'tasks'}\n{laws}", nl=False)
            verdict, unseen = live_verdict(report)
            typer.echo(
                f"verdict={verdict.value}" + (f" (nothing to see yet for {', '.join(unseen)})" if unseen else "")
            )
    except psycopg.errors.UndefinedTable:
        raise BadInput("schema", f"there is no noeta store in schema {schema!r} at {where}") from None
    except psycopg.Error as error:
        first = str(error).strip().splitlines()[:1]
        typer.echo(
            f"noeta: the store cannot be asked: the Postgres at {where} does not answer: {''.join(first)}", err=True
        )
        return UNREACHABLE
    return verdict.exit_code


def live_verdict(report: Report) -> tuple[Verdict, list[str]]:
    """What an operator is told, and the laws that found nothing to judge.

    In a storm a law without a subject leaves the verdict open. A healthy store may have no repeated model call, no
    ended task, no wake yet: there such a law is named and left out, unless no law saw anything.
    """
    from invariants import Verdict, merge

    seen = [one.verdict for one in report.laws if one.seen or one.verdict is Verdict.INVALID or one.crash]
    unseen = [one.law.key for one in report.laws if not one.seen and one.verdict is Verdict.UNKNOWN and not one.crash]
    return (merge(seen) if seen else Verdict.UNKNOWN), unseen
