"""``specsim env``: what a bug report needs."""

import importlib.metadata
import platform

import click

import specsim
from specsim.cli.device import choose_device
from specsim.cli.output import EXIT_CODES, plain_table, print_json, print_table
from specsim.environment import DEBUG, INTERPRETER, says_yes
from specsim.installation import IMPORTERS, explain_missing, find_missing

DISTRIBUTIONS = (
    "specsim",
    "numpy",
    "torch",
    "triton",
    "hypothesis",
    "pytest",
    "scipy",
    "click",
    "rich",
    "msgspec",
    "safetensors",
    "ml-dtypes",
    "packaging",
    "prometheus-client",
)


def versions_of(distributions: tuple[str, ...] = DISTRIBUTIONS) -> dict[str, str]:
    """Return the installed versions by distribution name; those that are absent are left out."""
    versions = {"python": platform.python_version()}
    for name in distributions:
        if name == specsim.__name__:
            versions[name] = specsim.__version__
            continue
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


@click.command(epilog=EXIT_CODES)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def env(as_json: bool) -> None:
    """Print versions and device, for bug reports."""
    device = choose_device()
    mode = "absent" if device in ("absent", "CPU") else "interpreted" if says_yes(INTERPRETER) else "compiled"
    document = {
        "versions": versions_of(),
        "platform": platform.platform(),
        "device": device,
        "mode": mode,
        "debug": says_yes(DEBUG),
        "missing": {importer: list(find_missing(extra)) for extra, importer in IMPORTERS.items()},
    }
    if as_json:
        print_json(document)
        return
    table = plain_table("what", "value")
    for name, version in versions_of().items():
        table.add_row(name, version)
    for name in ("platform", "device", "mode", "debug"):
        table.add_row(name, str(document[name]))
    lacking = [explain_missing(extra, importer) for extra, importer in IMPORTERS.items() if find_missing(extra)]
    table.add_row("missing", "\n".join(lacking) or "nothing")
    print_table(table)
