"""The error tree: stable codes, sorted by what the caller does next."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest

from noeta.core import errors
from noeta.core.errors import BadInput, Conflict, DuplicateTask, InvalidLease, NoetaError, UnknownTask, UnreadableLog
from noeta.core.runner.lease import ClaimLost

ALL = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, NoetaError)]


def test_codes_are_unique() -> None:
    assert len(ALL) > 10
    assert [code for code, count in Counter(kind.code for kind in ALL).items() if count > 1] == []


def test_a_lost_lease_is_a_conflict() -> None:
    assert issubclass(InvalidLease, Conflict)
    assert issubclass(ClaimLost, InvalidLease)
    assert issubclass(DuplicateTask, BadInput)


def test_refusals_name_what_they_refuse() -> None:
    assert str(BadInput("worker", "must not be empty")) == "worker: must not be empty"
    assert UnknownTask("t").task_id == "t"
    assert "'t'" in str(UnknownTask("t"))
    assert UnreadableLog("x", newer=True).newer


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_no_error_is_another_by_accident(kind: type[NoetaError]) -> None:
    assert kind is NoetaError or kind.code != NoetaError.code
    assert kind.__doc__


def test_an_error_without_arguments_of_its_own_can_be_sent_to_another_process() -> None:
    found = pickle.loads(pickle.dumps(Conflict("expected 3, found 4")))

    assert isinstance(found, Conflict)
    assert str(found) == "expected 3, found 4"


@pytest.mark.parametrize(
    "error",
    [BadInput("seeds", "expected FROM..TO, found 7"), UnknownTask("t-1"), UnreadableLog("entry 7", newer=True)],
    ids=lambda error: type(error).__name__,
)
def test_an_error_with_arguments_of_its_own_comes_out_of_another_process_as_it_went_in(error: NoetaError) -> None:
    found = pickle.loads(pickle.dumps(error))

    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)
