"""Faults of the database server: shut down and started again, or killed whole. Only ever of a server of our own."""

from __future__ import annotations

import time
from typing import Final, Protocol

import msgspec

from noeta.chaos.nemesis.arena import Arena
from noeta.chaos.nemesis.record import FaultLine
from noeta.chaos.schedule import SERVER, Fault, Kind
from noeta.core.errors import StoreUnavailable
from noeta.testing.postgres import StopMode

NOT_OURS: Final = "the server was given by address: it is not ours to stop"


class DatabaseServer(Protocol):
    """What ``noeta.testing.postgres.Server`` offers."""

    @property
    def owned(self) -> bool: ...

    def is_running(self) -> bool: ...

    def start(self) -> None: ...

    def stop(self, mode: StopMode = "fast") -> None: ...

    def kill(self) -> None: ...


class ServerDown:
    """A server that is away for a while. All workers are hit, with everything they hold."""

    def __init__(self, arena: Arena, server: DatabaseServer, fault: Fault) -> None:
        self._arena, self._server = arena, server
        arena.server_struck = True
        self._up_at = time.monotonic() + fault.seconds("seconds")
        held = arena.held_by_all()
        self._line = FaultLine(
            at=arena.wall(),
            kind=fault.kind,
            process=SERVER,
            workers=arena.all_loops(),
            held=tuple(sorted(held, key=lambda claim: (claim.task, claim.epoch))),
            fault=fault.id,
            facts=dict(fault.args),
        )
        arena.record.write(self._line)
        if fault.kind is Kind.DB_KILL:
            server.kill()
        else:
            server.stop("immediate" if fault.args["mode"] == "immediate" else "fast")
        self._was_down = not server.is_running()

    def tick(self, now: float) -> bool:
        """Start it when its time has come; over once the store answers again."""
        if self._line.ended_at is None:
            if now >= self._up_at:
                self.heal(now)
            return False
        try:
            self._arena.claims.running(fresh_seconds=-1.0)
        except StoreUnavailable:
            return False
        self._arena.server_struck = False
        return True

    def heal(self, now: float) -> None:
        """Start it."""
        if self._line.ended_at is None:
            self._server.start()
            self._line = msgspec.structs.replace(self._line, ended_at=self._arena.wall(), effective=self._was_down)
            self._arena.record.write(self._line)
