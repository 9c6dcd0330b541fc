"""A person at a command line beside one store, and workers that come when they are called."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from noeta.backends.open import open_store
from noeta.cli import run
from noeta.core.events import TaskCreated
from noeta.core.runner import Engine
from tests.actors import drive

ROUNDS_MAX = 200
"""Claims after which tasks that do not come to rest are called endless."""


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def refusal(self) -> str:
        """The one line on standard error of a command that did nothing."""
        assert self.out == "", self
        (line,) = self.err.splitlines()
        return line


class Shell:
    """Runs `noeta tasks …` on this store in this process."""

    def __init__(self, store: str, capsys: pytest.CaptureFixture[str], schema: str = "noeta") -> None:
        self.store, self.schema = store, schema
        self._capsys = capsys

    def tasks(self, *arguments: str) -> Said:
        command, *rest = arguments
        return self.run("tasks", command, "--store", self.store, "--schema", self.schema, *rest)

    def run(self, *arguments: str) -> Said:
        """`noeta` with these arguments alone."""
        code = run(list(arguments))
        return Said(code, *self._capsys.readouterr())

    def done(self, *arguments: str) -> list[str]:
        """The lines of a command that must succeed."""
        said = self.tasks(*arguments)
        assert (said.code, said.err) == (0, ""), said
        return said.lines

    def json(self, *arguments: str) -> Any:
        return json.loads("\n".join(self.done(*arguments, "--json")))

    def create(self, id: str = "t", agent: str = "main", *options: str) -> None:
        self.done("create", id, "--agent", agent, "--goal", f"goal of {id}", *options)

    def work(self, **agents: Engine) -> None:
        """A worker drives whatever is claimable until nothing is."""
        store = open_store(self.store, schema=self.schema)
        try:
            for _ in range(ROUNDS_MAX):
                claims = store.claim("w1", None, 60.0).claims
                if not claims:
                    return
                created = store.read(claims[0].task_id, limit=1).entries[0].event
                assert isinstance(created, TaskCreated)
                drive(store, claims[0], agents[created.agent])
            raise AssertionError(f"no rest after {ROUNDS_MAX} claims")
        finally:
            store.close()
