"""``python -m scripted_model --seed 7``: the scripts of a seed and what is foretold of them, without running any."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final, NoReturn

import msgspec

from scripted_model.foretell import foretell_all
from scripted_model.generate import workload
from scripted_model.profile import Kind, Profile
from scripted_model.render import render_task

EXIT_USAGE: Final = 64
"""Bad usage (sysexits): 2, the parser's own, would read as the verdict ``unknown``."""

TASKS_DEFAULT: Final = len(Kind)
"""One of each kind."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def main(arguments: list[str] | None = None) -> int:
    """Print what was asked for; the exit code."""
    parser = _Parser(prog="python -m scripted_model", description=__doc__, allow_abbrev=False)
    parser.add_argument("--seed", type=int, required=True, help="the workload's root seed, a whole number")
    parser.add_argument("--tasks", type=int, default=TASKS_DEFAULT, help="how many tasks (default %(default)s)")
    parser.add_argument("--lease", type=float, default=1.0, help="lease in seconds (default %(default)s)")
    parser.add_argument("--task", help="only the task with this id")
    parser.add_argument("--json", action="store_true", help="the workload and what is foretold, as JSON")
    asked = parser.parse_args(arguments)
    try:
        load = workload(asked.seed, asked.tasks, Profile(lease_seconds=asked.lease))
    except ValueError as error:
        parser.error(str(error))
    told = foretell_all(load)
    if asked.task is not None:
        if asked.task not in {task.id for task in load.tasks}:
            parser.error(f"seed {asked.seed} with {asked.tasks} tasks has no task {asked.task!r}")
        told = tuple(one for one in told if one.task == asked.task)
        load = msgspec.structs.replace(
            load,
            tasks=tuple(task for task in load.tasks if task.id == asked.task),
            messages=load.messages_of(asked.task),
        )
    if asked.json:
        sys.stdout.write(msgspec.json.encode({"workload": load, "foretold": told}).decode() + "\n")
        return 0
    for task, one in zip(load.tasks, told, strict=True):
        sys.stdout.writelines(f"{line}\n" for line in render_task(task, load.messages_of(task.id), one))
        sys.stdout.write("\n")
    return 0


def _run() -> int:
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; nothing more may be written, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


if __name__ == "__main__":
    sys.exit(_run())
