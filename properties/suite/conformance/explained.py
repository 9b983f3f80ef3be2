"""A failure as it is explained on the command line and in pytest: the smallest case drawn, and what differs."""

import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from specsim.conformance.backend import Backend
from specsim.conformance.cases import write_case
from specsim.conformance.drawing import draw_requests, in_words
from specsim.conformance.piping.command import command_of
from specsim.conformance.plain_text import printable
from specsim.conformance.stored import Provenance
from specsim.properties.suite.conformance.report import Failure
from specsim.properties.suite.conformance.saving import case_of
from specsim.rejection import SpecRejection

CASES = Path("specsim-cases")
"""Where cases are written, if nothing else is said."""


def explain(failure: Failure, loss: str = "") -> list[str]:
    """Return what is said of a failure, but for the line that replays it.

    Parameters
    ----------
    loss : str
        What is lost by it, in words; may be empty.
    """
    fate = "" if failure.fate == "FAILED" else f" ! {failure.fate}"
    lost = f"{loss}: " if loss else ""
    lines = [f"FAILURE of {failure.operation or 'a whole run'}: {lost}{failure.property}{fate}"]
    lines.append(indented(failure.message or failure.error))
    if failure.case is not None:
        drawings = [] if failure.kept is None else draw_requests(failure.kept)
        lines += ["  smallest case:", *(indented(drawing, 4) for drawing in drawings)]
        lines += [f"    {name} = {in_words(value)}" for name, value in failure.case.items()]
        cell = "" if failure.kept is None or failure.kept.law is None else failure.kept.law.in_words()
        lines += [f"  {cell}"] if cell else []
    if failure.difference:
        lines.append(f"  first difference from the reference: {failure.difference}")
    return lines


def explain_here(failure: Failure, backend: Backend, seed: int, folder: Path) -> str:
    """Return what is said of a failure that was found in this process; its case is written, where it is a call."""
    written = "  its case is no call of one operation"
    if failure.case is not None:
        # NOTE: of a call outside the domain not every argument can be written, and the folder may not be writable.
        with suppress(SpecRejection, OSError):
            kept, difference = case_of(failure, backend, Provenance(backend.name, seed, {}))
            failure = replace(failure, kept=kept, difference=difference)
        written = "  its case cannot be written"
        with suppress(SpecRejection, OSError):
            if failure.kept is not None:
                written = f"  {replay_line(write_case(failure.kept, folder), backend.name)}"
    return printable("\n".join([*explain(failure), written]))


def indented(message: str, by: int = 2) -> str:
    """Return text with each line moved to the right."""
    return "\n".join(f"{' ' * by}{line}" for line in message.splitlines())


def replay_line(path: Path, implementation: str) -> str:
    """Return the line that replays a case against the implementation that it was found in."""
    command = command_of(implementation)
    who = f"--impl {shlex.quote(implementation)}" if command is None else f"--command {shlex.quote(command)}"
    return f"specsim replay {shlex.quote(str(path))} {who}"
