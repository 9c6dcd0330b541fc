"""A provider whose answer is a function of the request and the attempt alone, so any worker may ask it.

The script stands in the first message of the request, the position in what was said after it. The provider
holds no state; ``die``, ``pause`` and the journal of deaths are how it acts on its own process, never what it
answers. A conversation that no correct runtime builds is refused for good, as a real provider refuses it: the
turn fails and the outcome differs from what was foretold.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from noeta.core.model import ModelReply, ModelRequest, ProviderError, UserSaid
from scripted_model.course import OffCourse, locate, reply_at, replying_step, step_at
from scripted_model.dying import Die, die_for_certain, kill_own_process
from scripted_model.journal import Journal
from scripted_model.script import BadScript, Fail, Kill, Script, from_goal


@dataclass(frozen=True, slots=True)
class ScriptedProvider:
    """Implements ``noeta.core.model.Provider``.

    ``pause``: how a model call takes its time (seconds); the simulator waits in virtual time. ``journal``:
    where a call that kills its worker says so first, so that nobody takes the death for a fault of somebody
    else.
    """

    die: Die = kill_own_process
    pause: Callable[[float], object] = time.sleep
    journal: Journal | None = None

    def call(self, request: ModelRequest, *, attempt: int) -> ModelReply:
        """The scripted reply.

        Raises:
            ProviderError: scripted, or (not retryable) the request holds no script or is off its course.
        """
        try:
            script = _script_of(request)
            position = locate(script, request.said)
        except (BadScript, OffCourse) as error:
            raise ProviderError(f"refused: {error}", retryable=False) from error
        if script.think_seconds:
            self.pause(script.think_seconds)
        failing = step_at(script, position)
        if isinstance(failing, Fail) and (failing.times is None or attempt <= failing.times):
            raise ProviderError(f"scripted failure {attempt} of {failing.times}", retryable=failing.retryable)
        if isinstance(replying_step(script, position)[1], Kill):
            if self.journal is not None:
                self.journal.death(task=script.task, call="", start=0)
            die_for_certain(self.die)
        return reply_at(script, position)


def _script_of(request: ModelRequest) -> Script:
    if not request.said or not isinstance(request.said[0], UserSaid):
        raise BadScript("a request begins with the goal")
    return from_goal(request.said[0].text)
