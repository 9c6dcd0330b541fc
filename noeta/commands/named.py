"""What a person typed, named as it was typed: an option, and not the field below it that a value went into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from noeta.core.errors import BadInput


@contextmanager
def named(**options: str) -> Iterator[None]:
    """Refusals of these fields name the options instead; a field that is none of them is named as it is.

    Raises:
        BadInput: what was refused within.
    """
    try:
        yield
    except BadInput as error:
        if type(error) is not BadInput or error.field not in options:
            raise
        raise BadInput(options[error.field], error.problem) from error
