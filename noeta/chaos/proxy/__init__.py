"""On the wire: a proxy between workers and Postgres that reads the protocol's frames, and cuts around a commit."""

from noeta.chaos.proxy.answer import Outcome
from noeta.chaos.proxy.cuts import Cut
from noeta.chaos.proxy.record import CutLine, read_cuts, sum_of
from noeta.chaos.proxy.target import NoWire, Target, resolve
from noeta.chaos.proxy.wire import Wire, WireFailed

__all__ = ["Cut", "CutLine", "NoWire", "Outcome", "Target", "Wire", "WireFailed", "read_cuts", "resolve", "sum_of"]
