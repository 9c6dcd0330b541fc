"""Histories of background jobs, and of what a claim is kept for: jobs-told-once, frozen-holds-nothing, and the laws
about rows and waits."""

from __future__ import annotations

from tests.unit.invariants.case import invalid, unknown, valid

_CALL = "1/0 created interactive; 2/1 called a; 3/1 replied mute; 4/1 started 3-0; 5/1 finished 3-0; "
_JOB = _CALL + "6/1 job 3-0; "
_REST = _JOB + "7/1 called b; 8/1 replied; 9/1 suspended human; "
"""The task rests between two turns, its job runs on."""
_TOLD = "10/1 jobended 3-0; 11/1 called c; 12/1 replied; "
_KEPT = "end suspended/1 w1 kept last=9 on=human lease=99 at=90"
_OUTSIDE = _REST + "10/2 cancelled; end terminal/2 last=10 inbox=1"
_TWO = (
    "1/0 created; 2/1 called a; 3/1 replied mute,mute; 4/1 started 3-0; 5/1 finished 3-0; 6/1 job 3-0; "
    "7/1 started 3-1; 8/1 finished 3-1; 9/1 job 3-1; "
)

JOBS_TOLD_ONCE = (
    valid("jobs-told-once", "it ends, and the model is told", _REST + _TOLD + "13/1 suspended human"),
    valid("jobs-told-once", "it ends within the turn", _JOB + "7/1 jobended 3-0; 8/1 called b; 9/1 replied"),
    valid("jobs-told-once", "two, one ends and one is killed", _TWO + "10/1 jobended 3-1 killed; 11/1 jobended 3-0"),
    valid("jobs-told-once", "its claim is lost while the task rests", _REST + "10/2 joblost 3-0; 11/2 called c"),
    valid(
        "jobs-told-once",
        "its claim is lost in the middle of a model call, which is made again first",
        _JOB + "7/1 called b; 8/2 sealed 7; 9/2 called b; 10/2 replied; 11/2 joblost 3-0; 12/2 called c",
    ),
    valid(
        "jobs-told-once",
        "stopped with its task",
        _JOB + "7/1 called b; 8/1 replied; 9/1 jobended 3-0 stopped; 10/1 completed; end terminal/1 last=10",
    ),
    valid("jobs-told-once", "its task was cancelled while nobody ran it", _OUTSIDE),
    valid(
        "jobs-told-once",
        "its task was ended by a claimer that had not loaded it",
        _REST + "10/12 failed stale_reclaim_exceeded",
    ),
    valid("jobs-told-once", "its task escaped its worker too often", _JOB + "7/1 failed max_attempts_exceeded"),
    valid("jobs-told-once", "it runs, and its owner keeps the claim", _REST + _KEPT),
    valid("jobs-told-once", "it runs, and the task was let go a moment ago", _REST + "end suspended/1 last=9 on=human"),
    valid(
        "jobs-told-once",
        "its claim lapsed, and whoever claims the task has yet to tell",
        _REST + "end running/2 w2 last=9 at=90",
    ),
    valid(
        "jobs-told-once",
        "it writes until it ends",
        _JOB + "line 3-0; 7/1 called b; line 3-0; 8/1 replied; 9/1 jobended 3-0; 10/1 called c",
    ),
    valid(
        "jobs-told-once",
        "a line whose clock may be off",
        _JOB + "7/1 called b; 8/1 replied; 9/2 joblost 3-0; 10/2 called c; line 3-0 at=11 error=3",
    ),
    valid("jobs-told-once", "a line that is as old as its start", _JOB + "line 3-0 at=5 error=1"),
    invalid("jobs-told-once", "started again", _JOB + "7/1 job 3-0", "started-twice"),
    invalid(
        "jobs-told-once",
        "started before its call had its result",
        "1/0 created; 2/1 called; 3/1 replied mute; 4/1 started 3-0; 5/1 job 3-0; 6/1 finished 3-0",
        "started-unasked",
    ),
    invalid("jobs-told-once", "started with another call's result", _CALL + "6/1 job 3-1", "started-unasked"),
    invalid(
        "jobs-told-once",
        "started although its call failed",
        "1/0 created; 2/1 called; 3/1 replied mute; 4/1 started 3-0; 5/1 finished 3-0 error; 6/1 job 3-0",
        "started-unasked",
    ),
    invalid("jobs-told-once", "started by another owner", _CALL + "6/2 job 3-0", "started-unasked"),
    invalid("jobs-told-once", "the end of a job that never was", _JOB + "7/1 jobended 9-9", "ended-unstarted"),
    invalid("jobs-told-once", "told twice", _REST + "10/1 jobended 3-0; 11/1 jobended 3-0", "ended-twice"),
    invalid("jobs-told-once", "ended, and then lost", _REST + "10/1 jobended 3-0; 11/2 joblost 3-0", "ended-twice"),
    invalid("jobs-told-once", "lost, and then ended", _REST + "10/2 joblost 3-0; 11/2 jobended 3-0", "ended-twice"),
    invalid("jobs-told-once", "ended by who did not start it", _REST + "10/2 jobended 3-0", "ended-elsewhere"),
    invalid("jobs-told-once", "lost by its own owner", _REST + "10/1 joblost 3-0", "lost-alive"),
    invalid("jobs-told-once", "missing from a task that ended", _JOB + "7/1 completed", "job-unended"),
    invalid(
        "jobs-told-once",
        "missing from a task that took its cancel",
        _REST + "10/1 woken 1 cancel; 11/1 cancelled",
        "job-unended",
    ),
    invalid(
        "jobs-told-once",
        "missing from a task that who had claimed it cancelled",
        _REST + "w2:claim /2 ok last=9; 10/2 cancelled",
        "job-unended",
    ),
    invalid("jobs-told-once", "missing from a task that failed", _JOB + "7/1 failed internal_error", "job-unended"),
    invalid(
        "jobs-told-once",
        "the next owner asks the model and says nothing",
        _REST + "10/2 woken 1 human; 11/2 called c",
        "job-forgotten",
    ),
    invalid("jobs-told-once", "the next owner lets the task rest", _JOB + "7/2 suspended human", "job-forgotten"),
    invalid(
        "jobs-told-once",
        "the task rests, and nobody keeps it",
        _REST + "end suspended/1 last=9 on=human at=90",
        "job-forgotten",
    ),
    invalid(
        "jobs-told-once",
        "the task is kept by another claim than the one that started it",
        _REST + "end suspended/2 w2 kept last=9 on=human lease=99 at=90",
        "job-forgotten",
    ),
    invalid(
        "jobs-told-once",
        "the next request is the one from before",
        _JOB + "7/1 called b; 8/1 replied; 9/1 jobended 3-0; 10/1 called b",
        "untold",
    ),
    invalid("jobs-told-once", "a job that the log does not know", _JOB + "line 9-9", "ran-unlogged"),
    invalid("jobs-told-once", "a job that ran before its start was durable", _JOB + "line 3-0 at=3", "ran-unlogged"),
    invalid("jobs-told-once", "it wrote after it had ended", _REST + _TOLD + "line 3-0", "written-after-ended"),
    invalid(
        "jobs-told-once",
        "it wrote after it was lost, also by a clock that is a second off",
        _REST + "10/2 joblost 3-0; line 3-0 at=11.5 error=1",
        "written-after-lost",
    ),
    invalid("jobs-told-once", "it wrote after its task was cancelled", _OUTSIDE + "; line 3-0 at=90", "outlived-task"),
    unknown("jobs-told-once", "no job was started", _CALL),
    unknown("jobs-told-once", "the log does not fold", _JOB + "7/1 jobended 3-0; 9/1 called b"),
    unknown("jobs-told-once", "nothing", ""),
)

_SECONDS = 1_000_000
_PAUSED = "1/0 created; fault pause w1 t@1 at=10 until=20; "
_FIVE = {"statement_timeout": 5 * _SECONDS}

FROZEN_HOLDS_NOTHING = (
    valid("frozen-holds-nothing", "nothing is held", _PAUSED + "look at=11; look at=15", **_FIVE),
    valid("frozen-holds-nothing", "held for a moment", _PAUSED + "lock w1 0.5 at=11; look at=15", **_FIVE),
    valid("frozen-holds-nothing", "held until the server ends it", _PAUSED + "lock w1 5.2 at=16", **_FIVE),
    valid("frozen-holds-nothing", "a worker that is still frozen", "fault pause w1 t@1 until=-; look at=900", **_FIVE),
    invalid("frozen-holds-nothing", "held on", _PAUSED + "lock w1 6 at=17", "held-too-long", **_FIVE),
    invalid(
        "frozen-holds-nothing",
        "held on by one that nobody froze",
        _PAUSED + "look at=12; lock w2 9 at=17",
        "held-too-long",
        **_FIVE,
    ),
    unknown("frozen-holds-nothing", "nobody looked while it was frozen", _PAUSED + "look at=9; look at=21", **_FIVE),
    unknown("frozen-holds-nothing", "nobody was frozen", "fault kill w1 t@1 at=10; look at=10.5", **_FIVE),
    unknown("frozen-holds-nothing", "nobody says how long a statement may take", _PAUSED + "lock w1 6 at=17"),
    unknown("frozen-holds-nothing", "nothing", ""),
)

_ASKS = (
    "1/0 created; 2/1 called a; 3/1 replied mute,wait; 4/1 started 3-0; 5/1 finished 3-0; 6/1 job 3-0; "
    "7/1 started 3-1; 8/1 parked 3-1 human:q; 9/1 suspended human:q; "
)
"""The task waits for an answer in the middle of a turn, and its job runs on."""

ROWS = (
    valid(
        "row-agrees",
        "kept for a job, resumed when it ends, and free after that",
        _REST
        + "row suspended/1 w1 kept last=9 on=human; row running/1 w1 last=9; "
        + _TOLD
        + "row running/1 w1 last=12; "
        "13/1 suspended human; row suspended/1 last=13 on=human",
    ),
    valid(
        "row-agrees",
        "a kept claim that was released",
        _REST + "row suspended/1 w1 kept last=9 on=human; row pending/1 last=9; row running/2 w2 last=9",
    ),
    valid(
        "row-agrees",
        "a job is lost, and the call waits on",
        _ASKS + "row suspended/1 w1 kept last=9 on=human:q; row running/2 w2 last=9; 10/2 joblost 3-0; "
        "row suspended/2 last=10 on=human:q",
    ),
    invalid(
        "row-agrees",
        "a claim kept without a job",
        "1/0 created; 2/1 called; 3/1 replied; 4/1 suspended human; row suspended/1 w1 kept last=4 on=human",
        "kept-for-nothing",
    ),
    invalid(
        "row-agrees",
        "a claim kept although the job has ended",
        _ASKS + "10/1 jobended 3-0; row suspended/1 w1 kept last=10 on=human:q",
        "kept-for-nothing",
    ),
    invalid("row-agrees", "a job's claim let go", _REST + "row suspended/1 last=9 on=human", "jobs-let-go"),
)

_LEASE = {"renewals_recorded": True, "lease": 10 * _SECONDS}
_FREED = "row suspended/1 last=9 on=human; "

WAITS = (
    valid(
        "waiting-is-free",
        "the owner of a job goes on",
        _REST
        + "row suspended/1 w1 kept last=9 on=human lease=9; w1:renew /1 ok lease=25; "
        + _TOLD
        + "13/1 suspended human; row suspended/1 last=13 on=human",
        **_LEASE,
    ),
    valid(
        "waiting-is-free",
        "a job ends together with the wait of a call",
        _ASKS + "10/1 jobended 3-0; 11/1 woken 1 human:q; 12/1 finished 3-1 woken",
    ),
    invalid(
        "waiting-is-free",
        "a job ended, its claim was given up, and its owner goes on",
        _ASKS + "10/1 jobended 3-0; row suspended/1 last=10 on=human:q; 11/1 woken 1 human:q",
        "wrote-while-waiting",
    ),
    invalid(
        "waiting-is-free",
        "all jobs have ended, and it is renewed",
        _REST + _TOLD + "13/1 suspended human; w1:renew /1 ok lease=25",
        "renewed-while-waiting",
        **_LEASE,
    ),
    invalid(
        "waiting-is-free",
        "the claim of a job was given up",
        _REST + _FREED + "10/1 jobended 3-0",
        "wrote-while-waiting",
    ),
    valid("wake-once", "the end of a job begins a turn", _REST + _TOLD + "13/1 suspended human; 14/2 woken 1 human"),
    valid(
        "wake-once",
        "a job is lost while a call waits",
        _ASKS + "10/2 joblost 3-0; 11/3 woken 1 human:q; 12/3 finished 3-1 woken",
    ),
    invalid(
        "wake-once",
        "the end of a job answers no call",
        _ASKS + "10/1 jobended 3-0; 11/1 called b; 12/1 suspended human; 13/1 woken 1 human",
        "went-on-unwoken",
    ),
    invalid(
        "wake-once",
        "woken after a job had begun the turn",
        _REST + "10/1 jobended 3-0; 11/1 woken 1 human",
        "woken-twice",
    ),
    invalid(
        "wake-once",
        "another wake than the call's, beside a job that is lost",
        _ASKS + "10/2 joblost 3-0; 11/2 woken 1 human:p",
        "other-wake",
    ),
    valid(
        "timers-once",
        "a job is lost while a timer runs",
        "1/0 created; 2/1 called a; 3/1 replied mute,wait input=seconds:10; 4/1 started 3-0; 5/1 finished 3-0; "
        "6/1 job 3-0; 7/1 started 3-1 at=7; 8/1 parked 3-1 timer:17; 9/1 suspended timer:17; 10/2 joblost 3-0; "
        "11/2 woken 1 timer:17 at=18",
    ),
    invalid(
        "timers-once",
        "another timer than the stored one, beside a job that is lost",
        "1/0 created; 2/1 called a; 3/1 replied mute,wait; 4/1 started 3-0; 5/1 finished 3-0; 6/1 job 3-0; "
        "7/1 started 3-1; 8/1 parked 3-1 timer:9; 9/1 suspended timer:9; 10/1 woken 1 close; 11/1 suspended human; "
        "12/2 woken 2 human; 13/2 called b; 14/2 replied wait; 15/2 started 14-0; 16/2 parked 14-0 timer:17; "
        "17/2 suspended timer:17; 18/2 joblost 3-0; 19/2 woken 3 timer:9",
        "other-bytes",
    ),
    valid(
        "same-request",
        "a job ends between two calls",
        _REST + _TOLD + "13/1 called d; 14/2 sealed 13; 15/2 called d",
    ),
    invalid(
        "same-request",
        "the end of a job is told in an open call",
        _JOB + "7/1 called b; 8/2 sealed 7; 9/2 joblost 3-0; 10/2 called c",
        "other-request",
    ),
    valid(
        "bounded",
        "a lost job begins a turn after a stopped one",
        "1/0 created; 2/1 called; 3/2 sealed 2; 4/2 called; 5/3 sealed 4; 6/3 called; 7/3 sealed 6; "
        "8/3 suspended human reason=closed; 9/4 joblost 3-0; 10/4 called",
    ),
    valid(
        "script-finished",
        "its job is stopped before a cancelled task ends",
        "script completed cancels=c; sent c 1 cancelled; "
        + _REST
        + "10/1 woken 1 cancel; 11/1 jobended 3-0 stopped; 12/1 cancelled",
    ),
)

_IDLE = {"idle_since": {"default": 0}}
_TIMER = "1/0 created; 2/1 suspended timer:5; end suspended/1 w1 kept last=2 on=timer:5 ready=5 at=90 "

NEVER_STUCK = (
    valid(
        "never-stuck",
        "a kept task whose timer is due for a moment",
        "1/0 created; 2/1 suspended timer:85; end suspended/1 w1 kept last=2 on=timer:85 ready=85 at=90 lease=95",
        **_IDLE,
    ),
    invalid("never-stuck", "a kept task whose owner is deaf to its timer", _TIMER + "lease=95", "owner-deaf", **_IDLE),
    invalid("never-stuck", "a kept task whose lease is over", _TIMER + "lease=60", "unclaimed", **_IDLE),
)

CASES = (*JOBS_TOLD_ONCE, *FROZEN_HOLDS_NOTHING, *ROWS, *WAITS, *NEVER_STUCK)
