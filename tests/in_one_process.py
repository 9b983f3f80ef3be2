"""Runs command lines of specsim and scripts in one process, which imports what all of them need once.

It reads them from stdin, a JSON list, and writes how each of them ended to a file.
"""

import json
import os
import runpy
import shlex
import sys
import traceback
from pathlib import Path

from click.testing import CliRunner

from specsim.cli.main import main


def ended(line: str) -> tuple[int, str]:
    """Return the exit code of a line and what it printed."""
    program, *arguments = shlex.split(os.path.expandvars(line))
    if program == "specsim":
        ran = CliRunner().invoke(main, arguments)
        return ran.exit_code, ran.output
    try:
        runpy.run_path(program)
    except (Exception, SystemExit):
        return 1, traceback.format_exc()
    return 0, ""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps([ended(line) for line in json.load(sys.stdin)]), encoding="utf-8")
