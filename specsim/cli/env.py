"""``specsim env``: what a bug report needs."""

import importlib.metadata
import os
import platform

import click

from specsim.cli.device import INTERPRETER, choose_device
from specsim.cli.output import EXIT_CODES, console, plain_table, print_json

DISTRIBUTIONS = (
    "specsim",
    "numpy",
    "torch",
    "triton",
    "hypothesis",
    "pytest",
    "click",
    "rich",
    "msgspec",
    "safetensors",
)


def versions_of(distributions: tuple[str, ...] = DISTRIBUTIONS) -> dict[str, str]:
    """Return the installed versions by distribution name; those that are absent are left out."""
    versions = {"python": platform.python_version()}
    for name in distributions:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


@click.command(epilog=EXIT_CODES)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def env(as_json: bool) -> None:
    """Print versions, device and mode, for bug reports."""
    device = choose_device()
    mode = "interpreted" if os.environ.get(INTERPRETER) == "1" else "compiled"
    document = {
        "versions": versions_of(),
        "platform": platform.platform(),
        "device": device,
        "mode": "absent" if device == "absent" else mode,
    }
    if as_json:
        print_json(document)
        return
    table = plain_table("what", "value")
    for name, version in versions_of().items():
        table.add_row(name, version)
    for name in ("platform", "device", "mode"):
        table.add_row(name, str(document[name]))
    console().print(table)
