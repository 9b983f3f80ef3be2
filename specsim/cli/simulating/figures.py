"""Figures of a simulation as users read them."""

from typing import Any

from specsim.cli.output import plain_table, print_table
from specsim.cli.simulating.verify_options import verified_in_words

COMPARISONS = ("lossless", "reproducible")
"""Figures that are None where nothing is compared."""

NESTED = ("mismatches", "intervals", "meta_info", "plan", "spec_decode", "acceptance", "guard")
"""Figures that JSON alone has."""


def print_figures(figures: dict[str, Any]) -> None:
    """Print a line a figure."""
    table = plain_table("figure", "#value")
    for name, value in figures.items():
        if name not in NESTED and value != {}:
            table.add_row(name, in_words(name, value))
    print_table(table)


def in_words(name: str, value: Any) -> str:
    """Return a figure as users read it."""
    if name == "histogram":
        return ", ".join(f"{accepted}: {count:,}" for accepted, count in enumerate(value)) or "no verify"
    if name == "scheduled_verify":
        return verified_in_words(value)
    if name == "near_ties":
        return near_ties_in_words(value)
    if value is None:
        return "not compared" if name in COMPARISONS else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def near_ties_in_words(figures: dict[str, Any]) -> str:
    """Return how many tokens nearly tied with the model's own choice, as users read it."""
    if not figures["count"]:
        return "none"
    margin, allowed = (f"{figures[name]:.2g}" for name in ("largest_margin", "allowed"))
    return f"{figures['count']:,}, by {margin} at most, and rounding explains {allowed}"
