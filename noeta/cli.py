"""The command line: `noeta worker | task | tasks | migrate | cluster | sim | certify | check | doctor`.

Exit codes: a command's own (0 is good news); 64 for bad usage, since the harness speaks of an unknown verdict
with 2.
"""

from __future__ import annotations

import sys
from typing import Final

import typer

from noeta.commands.certify import certify
from noeta.commands.check import check
from noeta.commands.cluster import cluster
from noeta.commands.doctor import doctor
from noeta.commands.migrate import migrate
from noeta.commands.sim import app as sim
from noeta.commands.task import task
from noeta.commands.tasks import app as tasks
from noeta.commands.worker import worker
from noeta.core.errors import BadInput, NoetaError

BAD_USAGE: Final = 64
FAILED: Final = 1
INTERRUPTED: Final = 130
CLOSED_PIPE: Final = 141
"""As a shell names the end by SIGPIPE."""
_UsageError: Final[type[Exception]] = typer.BadParameter.__mro__[1]
"""What the library raises for bad usage; it has no public name of its own."""

app = typer.Typer(
    name="noeta",
    help="Durable agent tasks: one writer per task, and the storm that proves it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(worker)
app.command()(task)
app.command()(migrate)
app.command()(cluster)
app.command()(check)
app.command()(certify)
app.command()(doctor)
app.add_typer(sim, name="sim")
app.add_typer(tasks, name="tasks")


def main() -> None:
    """Run a command; every error a person can mend is one line."""
    sys.exit(run(sys.argv[1:]))


def run(args: list[str]) -> int:
    """Run a command with these arguments; its exit code."""
    try:
        result = app(args, standalone_mode=False)
    except _UsageError as error:
        error.show()  # type: ignore[attr-defined]
        return BAD_USAGE
    except typer.Abort:
        return INTERRUPTED
    except SystemExit as end:
        # Whoever read our output has seen enough. The library ends the process with 1 then, which is a verdict here.
        if isinstance(end.__context__, BrokenPipeError):
            return CLOSED_PIPE
        raise
    except BadInput as error:
        typer.echo(f"noeta: {error}", err=True)
        return BAD_USAGE
    except NoetaError as error:
        typer.echo(f"noeta: {error}", err=True)
        return FAILED
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    main()
