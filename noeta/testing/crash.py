"""Crash tests of your own agent: a simulated worker is struck at every point where it can be, one execution each, and
afterwards the world must be as it should.

::

    def make() -> CrashApp:                       # called anew for every execution: a fresh outer world
        bank = Bank()
        return CrashApp(
            app=lambda: Engine(Replies(asks("pay", {"cents": 500}), "done"), tools={"pay": Pay(bank)}),
            tasks=[Task("order-1", goal="buy one book")],
            check=lambda outcome: ...,            # assert over bank and outcome
            effects=lambda: bank.keys,            # what was had twice is found by itself
        )

    report = crash_everywhere(make)

In pytest ask for the fixture ``crash`` instead: ``crash.everywhere(make)`` fails with a story, and keeps the schedule
that repeats it. The guide: ``docs/guide/regression-test-recovery.md``.

What is struck: the production worker loop, on an in-memory store, under virtual time. What you bring: the engine, its
provider and its tools, as they are. A tool's body is one step; around it, and wherever it calls ``ctx.point(name)`` or
``ctx.wait(seconds)``, the process can be killed, frozen or cut off. So:

* put ``ctx.point("between")`` between two effects of one tool, or nothing will ever strike there;
* wait by ``ctx.wait``: ``time.sleep`` really sleeps, and no virtual time passes in it;
* bring a stand-in for the outside world: a real network call is really made in every execution, and a thread or a
  child process that a tool starts does not die with the simulated worker;
* have no effect in a ``finally`` or an ``except BaseException``: a real kill runs neither, a simulated one must unwind
  the stack. Whatever asks the context there is cut off as it should be;
* let what steers the agent be a function of its requests: an app that does something else the second time is refused.

An execution that has not come to rest after 1,000 virtual seconds is stuck.

Needs the extra ``noeta[chaos]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from noeta.testing.crash_app import CrashApp, Say, Task
from noeta.testing.crash_outcome import Call, Outcome, TaskOutcome
from noeta.testing.replies import Replies, asks

try:
    from noeta.chaos.sim.app_cast import load_crash_app, named
    from noeta.chaos.sim.app_replay import Replayed, replay_text
    from noeta.chaos.sim.app_report import CrashReport, Failure, keep
    from noeta.chaos.sim.app_search import MODES_OF_APPS, search_app
except ModuleNotFoundError as error:
    if error.name != "greenlet":
        raise
    raise ImportError("noeta.testing.crash needs the chaos extra: pip install 'noeta[chaos]'") from error

__all__ = [
    "MODES_OF_APPS",
    "Call",
    "CrashApp",
    "CrashReport",
    "Failure",
    "Outcome",
    "Replayed",
    "Replies",
    "Say",
    "Task",
    "TaskOutcome",
    "asks",
    "crash_everywhere",
    "keep",
    "replay_schedule",
]


def crash_everywhere(
    make: str | Callable[[], CrashApp], *, modes: Sequence[str] | None = None, depth: int = 1, jobs: int = 1
) -> CrashReport:
    """Strike the app at every point where it can be struck, in every way, one execution each.

    Args:
        make: a function at the top of a module, or its name as ``MODULE:FUNCTION``.
        modes: the ways to strike. None: all of ``MODES_OF_APPS``. ``say`` is another, if there are messages: each comes
            at every moment.
        depth: strikes of one execution, each at every point after the one before. The cost grows with its power.
        jobs: processes that share the work.

    Raises:
        BadInput: names what cannot be used: the module, the function, the field, the mode.
    """
    app = load_crash_app(make) if isinstance(make, str) else named(make)
    return search_app(app, modes, depth=depth, jobs=jobs)


def replay_schedule(text: str | bytes) -> Replayed:
    """Play a kept schedule again, given as JSON. Its app is imported by the name that stands in it.

    Raises:
        BadInput: the text is no schedule of the simulator, or its app cannot be loaded.
    """
    return replay_text(text)
