"""The law ``jobs-told-once`` beside a fold that tells otherwise: what a model is told stands in no log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from invariants import LAWS_BY_KEY, Verdict, check_all
from noeta.core import fold
from noeta.core.fold import TaskState
from noeta.core.model import UserSaid
from tests.unit.invariants.history import H

ENDED = (
    "1/0 created; 2/1 called a; 3/1 replied mute; 4/1 started 3-0; 5/1 finished 3-0; 6/1 job 3-0; 7/1 jobended 3-0; "
    "8/1 called b"
)


def tells_nothing(state: TaskState, text: str) -> None:
    return


def tells_twice(state: TaskState, text: str) -> None:
    state.said += [UserSaid(text), UserSaid(text)]


def tells_otherwise(state: TaskState, text: str) -> None:
    state.said.append(UserSaid(text.replace("code 0", "code 1")))


@pytest.mark.parametrize("tells", [tells_nothing, tells_twice, tells_otherwise])
def test_a_fold_that_does_not_tell_once_is_found(
    tells: Callable[[TaskState, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    law = LAWS_BY_KEY["jobs-told-once"]
    assert check_all(H(ENDED), [law]).verdict is Verdict.VALID

    monkeypatch.setattr(fold, "_tell_outside", tells)

    assert check_all(H(ENDED), [law])[law.key].codes == {"untold": 1}


def test_a_fold_that_tells_of_an_end_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    law = LAWS_BY_KEY["jobs-told-once"]
    again = f"{ENDED}; 9/1 replied; 10/1 jobended 3-0"
    assert check_all(H(again), [law])[law.key].codes == {"ended-twice": 1}

    class Remembers(dict[str, str]):
        def pop(self, job: str, *default: object) -> object:  # type: ignore[override]
            return self.get(job, *default)

    monkeypatch.setattr("invariants.laws.jobs_told_once.TaskState", lambda task: TaskState(task, jobs=Remembers()))

    assert check_all(H(again), [law])[law.key].codes == {"ended-twice": 1, "untold": 1}


def test_another_request_names_the_end_that_was_told_in_the_open_call() -> None:
    told_late = ENDED.replace("7/1 jobended 3-0; 8/1 called b", "7/1 called b; 8/2 joblost 3-0; 9/2 called c")

    (anomaly,) = check_all(H(told_late), [LAWS_BY_KEY["same-request"]]).anomalies()

    assert "(seq 8 JobLost came into the open turn)" in anomaly.text
    assert len(anomaly.witnesses) == 3
