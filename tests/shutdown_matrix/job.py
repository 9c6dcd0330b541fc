"""The background job of the matrix: a shell's child and a grandchild in a session of its own; both ignore SIGTERM.

A program: ``python -m tests.shutdown_matrix.job``. Each writes lines into the journal of its cell as long as it lives;
the grandchild says that the job is in place.
"""

from __future__ import annotations

import os
import signal
import time
from typing import NoReturn

from tests.shutdown_matrix import app


def main() -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    is_grandchild = os.fork() == 0
    if is_grandchild:
        os.setsid()
    app.write_line()
    if is_grandchild:
        app.mark(app.JOB_WRITES)
    while True:
        app.write_line()
        time.sleep(app.LINE_SECONDS)


if __name__ == "__main__":
    main()
