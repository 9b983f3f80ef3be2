"""What the distribution is called, and what each part of it needs beside NumPy.

The distribution ``specsim`` of the Python Package Index is somebody else's; the import name is the same.
"""

import importlib.metadata
import importlib.util
from collections.abc import Iterable
from contextlib import suppress

DISTRIBUTION = "specsim-decoding"
EXTRAS = {
    "cluster": ("ray",),
    "gpu": ("torch", "triton"),
    "metrics": ("prometheus_client",),
    "models": ("torch", "transformers"),
    "plots": ("matplotlib",),
    "properties": ("hypothesis", "pytest", "scipy"),
    "report": ("jinja2",),
}
"""The modules that each extra brings; ``pyproject.toml`` has the versions."""

IMPORTERS = {
    "cluster": "specsim.campaigns.cluster",
    "gpu": "specsim.gpu",
    "metrics": "specsim.host.exposition",
    "models": "specsim.checkpoints",
    "plots": "specsim.cli.benching.plots",
    "properties": "specsim.properties",
    "report": "specsim.reports",
}
"""The module that imports what an extra brings."""


def find_missing(extra: str) -> tuple[str, ...]:
    """Return what an extra needs and this installation lacks."""
    return tuple(name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None)


def explain_missing(extra: str, who: str) -> str:
    """Return the sentence that says what of an extra is missing, and how to install it."""
    return f"{who} needs {' and '.join(find_missing(extra))}: pip install '{DISTRIBUTION}[{extra}]'"


def versions_of(distributions: Iterable[str]) -> dict[str, str]:
    """Return the installed versions by distribution name; those that are absent are left out."""
    versions = {}
    for name in distributions:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions
