"""``specsim env``: what a bug report needs."""

import platform

import click

import specsim
from specsim.cli.device import choose_device
from specsim.cli.output import EXIT_CODES, plain_table, print_json, print_table
from specsim.environment import DEBUG, INTERPRETER, says_yes
from specsim.installation import IMPORTERS, explain_missing, find_missing, versions_of

DISTRIBUTIONS = (
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
    "matplotlib",
    "jinja2",
    "transformers",
)


def versions_with_python(distributions: tuple[str, ...] = DISTRIBUTIONS) -> dict[str, str]:
    """Return the installed versions by distribution name, those of Python and of this package first."""
    own = {"python": platform.python_version(), "specsim": specsim.__version__}
    return {**own, **versions_of(distributions)}


@click.command(epilog=EXIT_CODES)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def env(as_json: bool) -> None:
    """Print versions and device, for bug reports."""
    device = choose_device()
    mode = "absent" if device in ("absent", "CPU") else "interpreted" if says_yes(INTERPRETER) else "compiled"
    document = {
        "versions": versions_with_python(),
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
    for name, version in versions_with_python().items():
        table.add_row(name, version)
    for name in ("platform", "device", "mode", "debug"):
        table.add_row(name, str(document[name]))
    lacking = [explain_missing(extra, importer) for extra, importer in IMPORTERS.items() if find_missing(extra)]
    table.add_row("missing", "\n".join(lacking) or "nothing")
    print_table(table)
