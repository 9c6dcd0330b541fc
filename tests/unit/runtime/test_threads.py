"""The production world waits for its own events only, and says so."""

from __future__ import annotations

import pytest

from noeta.core.world import Event
from noeta.runtime.threads import ThreadEvent, ThreadWorld


class Strange:
    """An event of another world, which nobody can listen to."""

    def set(self) -> None:
        pass

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> bool:
        return False


def test_an_event_of_another_world_is_refused_and_not_dropped() -> None:
    events: list[Event] = [ThreadEvent(), Strange()]

    with pytest.raises(AssertionError, match="another world"):
        ThreadWorld().wait_any(events, 0.0)


def test_the_event_that_is_set_is_given_back() -> None:
    first, second = ThreadEvent(), ThreadEvent()
    second.set()

    assert ThreadWorld().wait_any([first, second], 1.0) is second
    assert ThreadWorld().wait_any([first], 0.0) is None
