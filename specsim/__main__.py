"""``python -m specsim`` is the command ``specsim``; nothing is imported from the working directory unasked."""

import atexit
import os
import sys
from contextlib import suppress


def leave_working_directory() -> None:
    """Take back that Python looks for modules in the working directory first, before what is installed.

    Where specsim itself stands there, as in its repository, the directory comes last.
    """
    if sys.flags.safe_path:
        return
    try:
        here = os.getcwd()
    except OSError:
        here = ""
    if sys.path[:1] not in ([here], [""]):
        return
    first = sys.path.pop(0)
    if first == os.path.dirname(os.path.dirname(os.path.abspath(__file__))) and first not in sys.path:
        sys.path.append(first)


def run() -> None:
    """Run the command line; what interrupts it while it is imported ends it as later on."""
    from specsim.cli.interrupts import end_now, listen

    listen()
    try:
        from specsim.cli.main import main

        main(prog_name="specsim")
    except KeyboardInterrupt:
        end_now()
    except SystemExit as left:
        if not isinstance(left.code, int) or sys.getprofile() is not None:
            raise
        # NOTE: an interpreter that has imported all of this takes seconds to take itself apart, in which a signal would
        # end it with another code.
        with suppress(OSError, AttributeError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        atexit._run_exitfuncs()
        os._exit(left.code)


if __name__ == "__main__":
    leave_working_directory()
    # NOTE: whatever is imported, is imported after that.
    run()
