"""Options of ``specsim simulate`` for scheduled verification."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from specsim.cli.output import Exit, Failed
from specsim.cli.simulating.costs import read as read_cost_file
from specsim.cli.simulating.drafting import drafter_of, forwards_of
from specsim.cli.simulating.options import with_options
from specsim.counts import path_width
from specsim.host.budget import Costs
from specsim.simulation.verification import FixedBudget, PricedBudget, Verification, VerifyMode
from specsim.tuning.costs import IterationTimes, ScheduledTimes, Shape

MOST_DRAFTS = 2**31 - 1
"""Drafts of a budget at most, as the operation counts them."""


_VERIFICATION = (
    click.option(
        "--verify-budget",
        type=click.IntRange(0, MOST_DRAFTS),
        metavar="N",
        help="Number of drafts that are verified of a batch of chains, at most.",
    ),
    click.option(
        "--verify-costs",
        type=click.Path(path_type=Path, readable=False),
        metavar="FILE",
        help="Measured cost of a step (JSON); each batch verifies the drafts that yield most tokens in its time.",
    ),
    click.option(
        "--verify-mode",
        type=click.Choice([VerifyMode.CAP_ACCEPT.value, VerifyMode.COMPACT.value]),
        help="Run the target over all rows and cut after it, or over verified rows alone: compact.",
    ),
)


def with_verification(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as ``verification``, None if everything is verified."""

    @functools.wraps(command)
    def called(*, verify_budget: int | None, verify_costs: Path | None, verify_mode: str | None, **others: Any) -> None:
        if verify_budget is not None and verify_costs is not None:
            raise Failed("--verify-budget and --verify-costs both say how many drafts are verified", Exit.USAGE)
        if verify_budget is None and verify_costs is None:
            if verify_mode is not None:
                needs = "--verify-mode needs a --verify-budget or --verify-costs"
                raise Failed(f"{needs}: everything is verified without one", Exit.USAGE)
            command(verification=None, **others)
            return
        budget = (
            PricedBudget(read_costs(verify_costs, others))
            if verify_costs is not None
            else FixedBudget(verify_budget or 0)
        )
        command(verification=Verification(VerifyMode(verify_mode or VerifyMode.COMPACT), budget), **others)

    return with_options(_VERIFICATION, called)


def read_costs(path: Path, given: Mapping[str, Any]) -> Costs:
    """Read the cost of a step: one table of a file of costs, that of whole iterations at the sizes of the run.

    Raises
    ------
    Failed
        USAGE: it cannot be read, or has no such table.
    """
    (table,) = read_cost_file("--verify-costs", path).tables
    if not isinstance(table, IterationTimes):
        return table
    record = drafter_of(given["algorithm"], given["multi_layer"])
    _, default_steps, default_nodes = record.default_sizes
    steps = given["steps"] or given["multi_layer"] or default_steps
    nodes = given["draft_tokens"] or default_nodes if record.parameters else path_width(steps)
    length = given["prompt_length"] + given["max_new_tokens"] // 2
    return ScheduledTimes(table, Shape(1, steps, nodes, *forwards_of(record, steps)), length)


def verified_in_words(figures: Mapping[str, int]) -> str:
    """Return how many drafts were verified, accepted and cut, as users read it."""
    if not figures["num_verified_drafts"]:
        return f"none: all {figures['num_drafts']:,} were cut, and every token is the target's own"
    verified, accepted = f"{figures['num_verified_drafts']:,}", f"{figures['num_accepted_drafts']:,}"
    of_all = f"{verified} of {figures['num_drafts']:,}, {accepted} of them accepted"
    return f"{of_all}; {figures['num_cut_drafts']:,} cut, {figures['num_trimmed_drafts']:,} known to be lost"
