"""``python -m specsim.reports FILE.json > FILE.html``: the page of a document that a command has printed as JSON."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from jinja2 import TemplateError

from specsim.reports import COMMANDS, docs_beside, render

USAGE = 2


def main(arguments: Sequence[str]) -> int:
    """Print the page on stdout, or one line on stderr that says why there is none; return the exit code."""
    if len(arguments) != 1:
        return _refuse(f"one file is expected, and {len(arguments)} are given")
    (path,) = arguments
    try:
        document = json.loads(Path(path).read_text("utf-8"))
        command = document["command"]
        if command not in COMMANDS:
            return _refuse(f"{path}: its command is {command!r}, but should be one of {', '.join(COMMANDS)}")
        page = render(command, document, docs_beside(Path()))
    except OSError as error:
        return _refuse(f"{path}: {error.strerror}")
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError, TemplateError) as error:
        return _refuse(f"{path}: it is no document of specsim ({type(error).__name__}: {error})")
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    print(page, end="")
    return 0


def _refuse(why: str) -> int:
    print(f"specsim.reports: {' '.join(why.split())}", file=sys.stderr)
    return USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
