"""Options of ``specsim simulate`` for scheduled verification."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from specsim.cli.output import Exit, Failed
from specsim.cli.simulating.options import with_options
from specsim.host.budget import CapturedTimes, Costs, StepRates, StepTimes
from specsim.simulation.verification import FixedBudget, PricedBudget, Verification, VerifyMode

MOST_DRAFTS = 2**31 - 1
"""Drafts of a budget at most, as the operation counts them."""


class _Tables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file of costs may have: one of these."""

    step_rates: StepRates | None = None
    step_times: StepTimes | None = None
    captured_times: CapturedTimes | None = None


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
        budget = PricedBudget(read_costs(verify_costs)) if verify_costs is not None else FixedBudget(verify_budget or 0)
        command(verification=Verification(VerifyMode(verify_mode or VerifyMode.COMPACT), budget), **others)

    return with_options(_VERIFICATION, called)


def read_costs(path: Path) -> Costs:
    """Read the cost of a step: an object of one table by its name, with what that takes.

    Raises
    ------
    Failed
        USAGE: it cannot be read, or has no such table.
    """
    try:
        tables = msgspec.json.decode(path.read_bytes(), type=_Tables)
    except OSError as error:
        raise Failed(f"--verify-costs {path}: {error.strerror}", Exit.USAGE) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise Failed(f"--verify-costs {path}: {error}", Exit.USAGE) from error
    given: list[Costs] = [one for one in msgspec.structs.astuple(tables) if one is not None]
    if len(given) != 1:
        names = ", ".join(one.name for one in msgspec.structs.fields(_Tables))
        raise Failed(f"--verify-costs {path}: should have one table, {names}", Exit.USAGE)
    return given[0]


def verified_in_words(figures: Mapping[str, int]) -> str:
    """Return how many drafts were verified, accepted and cut, as users read it."""
    if not figures["num_verified_drafts"]:
        return f"none: all {figures['num_drafts']:,} were cut, and every token is the target's own"
    verified, accepted = f"{figures['num_verified_drafts']:,}", f"{figures['num_accepted_drafts']:,}"
    of_all = f"{verified} of {figures['num_drafts']:,}, {accepted} of them accepted"
    return f"{of_all}; {figures['num_cut_drafts']:,} cut, {figures['num_trimmed_drafts']:,} known to be lost"
