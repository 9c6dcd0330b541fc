"""What a detector says of a planted bug, as one line of JSON on its way from a probe."""

from __future__ import annotations

import msgspec


class Answer(msgspec.Struct, frozen=True):
    """``verdict``: ``invalid`` (caught), ``valid``, ``unknown``. ``by``: the law, test or pair that convicts.
    ``what``: the witness, in one line. ``runs``: how many runs it took."""

    verdict: str
    by: str = ""
    what: str = ""
    runs: int = 0

    @property
    def caught(self) -> bool:
        """Only an ``invalid`` is a catch: ``unknown`` is not."""
        return self.verdict == "invalid"


def say(answer: Answer) -> None:
    """Print it as the last line."""
    print(msgspec.json.encode(answer).decode(), flush=True)


def heard(output: str) -> Answer | None:
    """The answer in a probe's output, if it came to one."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            try:
                return msgspec.json.decode(line, type=Answer)
            except msgspec.MsgspecError:
                return None
    return None
