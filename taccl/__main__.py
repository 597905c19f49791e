"""The entry of the command: `taccl`, and `python -m taccl`.

Before any other module is imported, which takes 0.06 s and more, Ctrl-C is made to end the process without a
traceback. That holds from the first lines here on; while Python starts and reads its own site packages, and
the few lines of `taccl/__init__.py`, it is Python that answers.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

#: What a shell gives a process that was ended by Ctrl-C.
_INTERRUPTED = 130


def main() -> None:
    """Run the command with the words of this process."""
    if is_heard := signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
        # Until the command hears signals itself. No exception: code that is run by an import, such as a
        # callback of a weak reference, could not pass it on.
        signal.signal(signal.SIGINT, _end)
    from taccl.cli.main import main as command

    try:
        command(prog_name="taccl")
    finally:
        if is_heard:  # what the command came to stands, while Python tidies up
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, b"error: interrupted\n")
    finally:  # standard error may be closed
        os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
