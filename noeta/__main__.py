"""The command line, as `python -m noeta` and as `noeta`.

Ctrl-C while the commands are being imported ends the process as it ends any other: by the signal, without a traceback.
"""

from __future__ import annotations

import signal


def main() -> None:
    """Import the command line, and run it."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from noeta.cli import main as run

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
