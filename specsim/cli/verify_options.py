"""Options of ``specsim simulate`` for scheduled verification."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import click

from specsim.cli.output import Exit, Failed
from specsim.cli.simulate_options import with_options
from specsim.simulation.verification import FixedBudget, Verification, VerifyMode

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
        "--verify-mode",
        type=click.Choice([VerifyMode.CAP_ACCEPT.value, VerifyMode.COMPACT.value]),
        help="Run the target over all rows and cut after it, or over verified rows alone: compact.",
    ),
)


def with_verification(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as ``verification``, None if everything is verified."""

    @functools.wraps(command)
    def called(*, verify_budget: int | None, verify_mode: str | None, **others: Any) -> None:
        if verify_budget is None and verify_mode is not None:
            raise Failed("--verify-mode needs a --verify-budget: everything is verified without one", Exit.USAGE)
        verification = None
        if verify_budget is not None:
            verification = Verification(VerifyMode(verify_mode or VerifyMode.COMPACT), FixedBudget(verify_budget))
        command(verification=verification, **others)

    return with_options(_VERIFICATION, called)


def verified_in_words(figures: Mapping[str, int]) -> str:
    """Return how many drafts were verified, accepted and cut, as users read it."""
    if not figures["num_verified_drafts"]:
        return f"none: all {figures['num_drafts']:,} were cut, and every token is the target's own"
    verified, accepted = f"{figures['num_verified_drafts']:,}", f"{figures['num_accepted_drafts']:,}"
    of_all = f"{verified} of {figures['num_drafts']:,}, {accepted} of them accepted"
    return f"{of_all}; {figures['num_cut_drafts']:,} cut, {figures['num_trimmed_drafts']:,} known to be lost"
