"""Background jobs of a worker process: shells whose whole process trees end with it.

::

    worker ── table.py, minder.py     the Jobs of each claim; one activity that talks to the guard
      └─ guard (guard.py)             one small process; is told the end of each lease
           └─ supervisor              one per job (supervisor.py); reads what the job writes
                └─ /bin/sh -c …       the job, in a session of its own, and all that descends from it

Who kills, and when. A tree is killed by its supervisor when its shell has ended: nothing outlives its job, so a shell
that left a daemon behind takes it along. The guard kills the trees of a claim a margin before the lease is over, by the
kernel's monotonic clock, also if the worker is frozen; and all trees when the worker is gone, however it went. When the
guard is gone the supervisors kill; when a supervisor is gone the guard does. To descend is enough to be found: guard
and supervisors are child subreapers, so that whoever ignores signals, made a session of its own or forked twice is
still below them; and what was killed is waited for until the kernel says that no child is left. Keeps: jobs-told-once.

Not handled. If the guard is frozen together with the worker (a stopped machine, a frozen control group), the trees go
on after the lease: only a fence on what they touch would help. Killing the guard and a supervisor at one blow, or
processes that fight their own watchers (they run as the same user), may leave a tree behind; so may a process of
another user (sudo), which we may not signal. A heartbeat that comes later than the lease minus the margin finds the
jobs killed.

Linux only (subreapers, pidfds, timerfds, 5.3 or newer); elsewhere no job is started, and its end says why. This file
imports nothing: guard and supervisors are run with the standard library alone.
"""
