"""The option of ``specsim simulate`` that draws the run."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from specsim.cli.output import require_writable, write_file
from specsim.cli.simulating.options import with_options
from specsim.simulation.turns.recording import UNWATCHED, Recorder

_TIMELINE = (
    click.option(
        "--timeline",
        type=click.Path(path_type=Path, readable=False),
        metavar="FILE",
        help="Write a picture of the run (SVG): requests, launches, streams, slots in use.",
    ),
)


def with_timeline(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option to a command, which gets as ``watch`` what records the run; it is drawn when the command ends."""

    @functools.wraps(command)
    def called(*, timeline: Path | None, **others: Any) -> None:
        if timeline is None:
            command(watch=UNWATCHED, **others)
            return
        require_writable("--timeline", timeline)
        recorder = Recorder()
        try:
            command(watch=recorder, **others)
        except click.exceptions.Exit:
            # NOTE: a command ends by this exception; what it found is its exit code, written or not.
            drafts = others["drafter"] or others["algorithm"]
            title = f"simulate: {others['num_requests']} requests, {drafts} on the {others['worker']} worker"
            write_file("--timeline", timeline, recorder.draw(title))
            raise

    return with_options(_TIMELINE, called)
