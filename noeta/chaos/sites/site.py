"""Where the tasks of a storm are: what is prepared before it and tidied up after it, for one kind of store.

A ``Site`` is a choice, as it was asked for: nothing is there yet. Opened for a run it is a ``Ground``, which the
workers open by its address and which is gone (or kept, where that is said) when the run is over, also if the harness
is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from noeta.chaos.evidence_dir import RunDir
from noeta.chaos.locks import PgLocks
from noeta.chaos.nemesis import DatabaseServer
from noeta.chaos.proxy import Wire
from noeta.chaos.reaper import Reapers
from noeta.chaos.store_view import StoreView
from noeta.core.store import Store


@dataclass(frozen=True, slots=True)
class Opening:
    """What a site is opened with. ``keep``: what the run leaves in the store is wanted afterwards; ``tell``: a line
    for the person who waits."""

    run_dir: RunDir
    reapers: Reapers
    keep: bool
    tell: Callable[[str], None]


class Ground(Protocol):
    """A store that is ready for a run, and nobody else's."""

    @property
    def address(self) -> str:
        """What `noeta worker --store` takes, for the harness itself. It may hold a password: never shown, never
        written down."""
        ...

    def worker_address(self, process: str) -> str:
        """The same for this worker process: it leads over the wire, where there is one."""
        ...

    @property
    def wire(self) -> Wire | None:
        """Where connections of workers can be cut; None: they go directly."""
        ...

    @property
    def no_wire(self) -> str:
        """Why cuts are refused, where they are."""
        ...

    @property
    def schema(self) -> str | None:
        """What `noeta worker --schema` takes, of a store that has schemas."""
        ...

    @property
    def server(self) -> DatabaseServer | None:
        """The server to strike; None: there is none, or it is not ours."""
        ...

    @property
    def no_server(self) -> str:
        """Why faults of a server are refused, where they are."""
        ...

    def open(self, connections_max: int) -> Store:
        """A handle of the store; whoever asks closes it."""
        ...

    def view(self, name: str) -> StoreView:
        """What reads past the store; whoever asks closes it. ``name``: for whom, where a server shows that."""
        ...

    def lock_view(self) -> PgLocks | None:
        """What looks at the locks of the workers' sessions; whoever asks closes it. None: the store is no server, and
        nobody has a session with it."""
        ...

    def keeps_out(self, pid: int) -> bool:
        """Whether this process, which is stopped, keeps everybody else from writing for as long as it is."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """What the store itself saw of the run that the evidence should tell, for ``run.json``."""
        ...


class Site(Protocol):
    """One kind of store, with what was asked of it."""

    @property
    def words(self) -> str:
        """For the first and the last line of a run: ``postgres=15.18``, ``store=sqlite 3.40.1``."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """What ``run.json`` says of it before it is there."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Of the code behind it."""
        ...

    def open(self, opening: Opening) -> AbstractContextManager[Ground]:
        """Make it ready; afterwards tidy it up."""
        ...
