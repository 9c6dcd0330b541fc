"""A failing schedule as a test to keep: a file that needs nothing but noeta and pytest, and passes once it is fixed."""

from __future__ import annotations

from typing import Final

from noeta.chaos.schedule import Schedule, to_json
from noeta.chaos.sim.replay import replay
from noeta.chaos.sim.story import story

_FILE: Final = '''\
"""Plays one simulated execution again, which broke `{law}`.

Written by `noeta sim`; the same schedule gives the same execution, step by step.
"""

from invariants import Verdict
from noeta.testing.crash import replay_schedule

# What happened when this file was written:
{story}

SCHEDULE = r\'\'\'
{schedule}\'\'\'


def test_{name}_holds() -> None:
    played = replay_schedule(SCHEDULE)

    assert played.verdict is Verdict.VALID, "\\n".join(played.why)
'''


def as_pytest(schedule: Schedule, law: str) -> str:
    """The text of a test that is red as long as this schedule breaks a law, and when it strikes nothing any more.

    Args:
        law: the key that it breaks, for the name and the story.
    """
    # An apostrophe could end the literal; inside of JSON's strings, the only place for one, it has another name.
    literal = to_json(schedule).replace("'", "\\u0027")
    told = "\n".join(f"# {line}".rstrip() for line in story(replay(schedule), law))
    return _FILE.format(law=law, name=law.replace("-", "_"), schedule=literal, story=told)
