"""Claims that are given up before their lease is over: of tasks that rest, and of steps that do not end.

What holds a claim alive (background jobs) ends first, so that nothing runs for a task that others may claim.
Keeps: jobs-told-once, never-stuck.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from noeta.core import texts
from noeta.core.actions import Interrupted, next_action
from noeta.core.errors import Conflict, NoetaError
from noeta.core.events import StepAttemptAbandoned
from noeta.core.runner.desk import Desk
from noeta.core.runner.lease import Held
from noeta.core.store import Commit, Continue, PutBack
from noeta.runtime.dispatcher import Dispatcher, Lease

if TYPE_CHECKING:
    from noeta.runtime.process import Process

GIVE_BACK_PAUSE_SECONDS: Final = 0.25
"""Between two tries to give a task back while the store is out of reach and the grace is not over."""

_log = logging.getLogger("noeta.worker")


def give_back(process: Process, dispatcher: Dispatcher, leases: Sequence[Lease], within: float | None) -> bool:
    """Record which jobs of these kept tasks have ended by themselves, end the others, and release the claims, so that
    the tasks may be claimed at once; whether all were given back.

    What would not end is left to its lease, with its claim. A store that is out of reach is asked again for so many
    seconds (None: as long as the lease lasts).
    """
    until = None if within is None else process.world.monotonic() + within
    for lease in leases:
        _record_ends(dispatcher, lease)
    stopped: dict[tuple[str, str], bool] = {}

    def stop(lease: Lease) -> Callable[[], None]:
        return lambda: stopped.update({lease.held.key: process.stop_jobs(lease.held)})

    # At once: each may take the whole grace of a shell that ignores SIGTERM.
    stopping = []
    for lease in leases:
        try:
            stopping.append(process.world.spawn(f"stop the jobs of {lease.task_id}", stop(lease)))
        except Exception as error:  # no thread to be had, say: one after the other, then
            process.trouble.failed("stopping jobs side by side", error)
            stop(lease)()
    for spawned in stopping:
        spawned.done.wait()
    all_given_back = True
    for lease in leases:
        left = None if until is None else until - process.world.monotonic()
        is_given_back = stopped.get(lease.held.key, False) and release(process, dispatcher, lease, left)
        all_given_back &= is_given_back
        process.drop(lease.held)
    return all_given_back


def _record_ends(dispatcher: Dispatcher, lease: Lease) -> None:
    """What is not recorded when the claim is given up would be told as lost, although its end is known here."""
    held = lease.held
    if held.lost is not None or held.jobs is None or not held.jobs.ended():
        return
    try:
        dispatcher.resume(lease)
        held.resumed()
        desk = Desk(dispatcher.store, held, lambda reason, seq: None)
        desk.load()
        desk.note_jobs()
        desk.flush(Continue())
    except NoetaError as error:
        _log.warning("task %s: the ends of its jobs could not be recorded: %s", lease.task_id, error)


def release(process: Process, dispatcher: Dispatcher, lease: Lease, within: float | None) -> bool:
    """Release a claim, again while the store is out of reach, for so many seconds (None: as long as the lease lasts);
    whether that was done. One that is gone (an answer that was lost had released it, say) needs nobody to do it."""
    until = lease.held.deadline if within is None else process.world.monotonic() + within
    while lease.held.lost is None:
        try:
            dispatcher.release(lease)
        except Conflict as error:
            _log.info("task %s: nothing to give back: %s", lease.task_id, error)
        except NoetaError as error:
            left = until - process.world.monotonic()
            if left <= 0:
                _log.warning("task %s could not be released: %s", lease.task_id, error)
                return False
            process.world.wait_any([lease.held.changed], min(left, GIVE_BACK_PAUSE_SECONDS))
            continue
        return True
    return True


def once_more(process: Process, dispatcher: Dispatcher, lease: Lease) -> Lease:
    """The same claim, for somebody else than the step that has it: the step's handle is cut, and writes nothing."""
    held = Held(process.world, dispatcher.store, lease.claim, lease.held.deadline)
    held.inbox_seq = lease.held.inbox_seq
    return Lease(dispatcher.store, held)


def put_back_without_step(process: Process, dispatcher: Dispatcher, lease: Lease) -> bool:
    """Put a task back whose step does not end, if the log says that no tool of it may still run: what hangs in a model
    call has no effect. Nobody died in that call: the seal says so. Whether it was put back.

    Raises:
        Conflict, StoreUnavailable, CommitUnknown.
    """
    if not process.stop_jobs(lease.held):
        return False
    held = once_more(process, dispatcher, lease).held
    desk = Desk(dispatcher.store, held, lambda reason, seq: None)
    desk.load()
    match next_action(desk.state, ordered=False):
        case Interrupted(model_called_seq=int() as seq, calls=()):
            seal = StepAttemptAbandoned(seq, texts.WORKER_STOPPED)
            held.append(desk.state.last_seq, Commit((seal,), PutBack()))
            return True
        case _:
            return False
