"""Ten bugs of background jobs: who starts them, who ends them and their trees, and what the log says of it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import DESK, RUNNER, Lines, Mutant, Quick, Swap
from tests.mutants.patching import in_guard

_KEPT: Final = "tests/unit/runtime/test_kept_claims.py::"
_JOBS: Final = "tests/unit/runtime/jobs/"
_GUARD: Final = "noeta.runtime.jobs.guard"
_RESTS: Final = ("comes-to-an-end", "script-finished", "never-stuck")
"""What a task comes to that never gets rid of a job, or of the news of it."""

JOBS: Final = (
    Mutant(
        "job-told-twice",
        "a job whose end is told stays on the task's list, and so it is told again, as lost",
        "jobs-told-once",
        "runner",
        python=(
            Lines(
                "noeta.core.fold",
                "_apply",
                (
                    (
                        "if state.jobs.pop(event.job_id, None) is not None:",
                        (
                            "known = event.job_id in state.jobs\n"
                            "            if isinstance(event, JobLost):\n"
                            "                state.jobs.pop(event.job_id, None)\n"
                            "            if known:"
                        ),
                    ),
                ),
            ),
        ),
        laws=_RESTS,
        quick=Quick(
            tests=(_KEPT + "test_the_end_of_a_job_wakes_the_task_under_the_same_epoch_and_is_told_once",),
            sim=("job-ends", "kill"),
        ),
        extra=True,
    ),
    Mutant(
        "job-outlives-its-task",
        "a task ends while its jobs run: nobody stops them, and its log never says what became of them",
        "jobs-told-once",
        "runner",
        python=(Lines(RUNNER, "Runner._end_turn", (("        self._desk.stop_jobs()\n", ""),)),),
        quick=Quick(
            tests=(_KEPT + "test_a_one_shot_task_stops_its_jobs_before_it_ends",), sim=("job-outlives", "kill")
        ),
        extra=True,
    ),
    Mutant(
        "job-end-unwritten",
        "a task that ends stops its jobs first, and their ends are not written beside its own",
        "jobs-told-once",
        "runner",
        python=(Lines(DESK, "Desk.stop_jobs", (("        self.note_jobs()\n", ""),)),),
        quick=Quick(
            tests=(_KEPT + "test_a_one_shot_task_stops_its_jobs_before_it_ends",), sim=("job-outlives", "kill")
        ),
        extra=True,
    ),
    Mutant(
        "lost-job-untold",
        "who claims a task after its worker died does not say that the jobs of that worker are lost",
        "jobs-told-once",
        "runner",
        python=(
            Lines(
                DESK, "Desk.note_jobs", (("                self.note(JobLost(job))\n", "                continue\n"),)
            ),
        ),
        laws=_RESTS,
        quick=Quick(
            tests=(_KEPT + "test_a_lost_claim_stops_its_jobs_and_the_next_owner_finds_them_lost",),
            sim=("kept-timer", "kill"),
        ),
        extra=True,
    ),
    Mutant(
        "live-job-declared-lost",
        "a worker declares a job lost that it runs itself, and that goes on writing",
        "jobs-told-once",
        "runner",
        python=(
            Lines(
                DESK,
                "Desk.note_jobs",
                (("elif job not in known and job not in self._jobs:", "elif job not in self._jobs:"),),
            ),
        ),
        laws=_RESTS,
        quick=Quick(
            tests=(_KEPT + "test_a_message_is_heard_with_the_beat_and_answered_under_the_same_epoch",),
            sim=("kept-timer", "kill"),
        ),
        extra=True,
    ),
    Mutant(
        "job-started-before-its-record",
        "a job is started when its call returns, and the log says so with the next commit, if there is one",
        "jobs-told-once",
        "runner",
        python=(
            Lines(
                DESK,
                "Desk.note",
                (
                    (
                        "            self._jobs[event.job_id] = job\n",
                        "            self._held.jobs.start(event.job_id, job)\n",
                    ),
                ),
            ),
        ),
        quick=Quick(tests=(_KEPT + "test_a_job_whose_record_did_not_land_is_not_started",), sim=("job-ends", "kill")),
        extra=True,
    ),
    Mutant(
        "job-ends-with-its-shell",
        "a job has ended when its shell has: what that left behind goes on until the claim is over",
        "jobs-told-once",
        "worker",
        python=in_guard(
            Lines(
                "noeta.runtime.jobs.supervisor",
                "Supervisor.run",
                (
                    (
                        "        self._kill_tree()\n",
                        (
                            "        if self._order is None:\n"
                            "            self._tell(self._end())\n"
                            "            while self._order is None:\n"
                            "                self._turn(None)\n"
                            "        self._kill_tree()\n"
                        ),
                    ),
                ),
            )
        ),
        quick=Quick(tests=(_JOBS + "test_jobs.py::test_a_daemon_ends_with_the_shell_that_left_it",)),
        extra=True,
    ),
    Mutant(
        "jobs-outlive-their-worker",
        "the guard hears that its worker is gone, and leaves its jobs alone until their lease is over",
        "jobs-told-once",
        "worker",
        python=in_guard(
            Lines(_GUARD, "Guard._end", (("        self._kill(self._jobs, supervisor.WORKER_GONE)\n", ""),))
        ),
        quick=Quick(tests=(_JOBS + "test_deaths.py::test_nothing_is_left_after_kill_9[worker]",)),
        extra=True,
    ),
    Mutant(
        "frozen-worker-keeps-its-jobs",
        "the guard waits for its worker's word that the lease is over, which a frozen worker cannot say",
        "jobs-told-once",
        "worker",
        python=in_guard(
            Lines(
                _GUARD,
                "Guard._lease_over",
                (("if claim.timer.is_over:  # and was not extended in this round", "if False:"),),
            )
        ),
        quick=Quick(tests=(_JOBS + "test_lease_ends.py::test_only_the_claim_that_was_not_extended_is_killed",)),
        extra=True,
    ),
    Mutant(
        "killed-with-the-lease",
        "a claim's jobs are killed when its lease is over and not before: whoever is next finds them writing",
        "jobs-told-once",
        "worker",
        python=(Swap("noeta.runtime.jobs.table", "MARGIN_SECONDS_MAX", lambda seconds: 0.0),),
        quick=Quick(
            tests=(_JOBS + "test_lease_ends.py::test_the_margin_is_a_bounded_part_of_the_lease",),
            sim=("kept-timer", "freeze"),
        ),
        extra=True,
    ),
)
