"""Options of ``specsim simulate`` for scheduled verification."""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from specsim.cli.output import Exit, Failed
from specsim.cli.simulate_options import with_options
from specsim.host.budget import CapturedTimes, Costs, StepRates, StepTimes
from specsim.rejection import SpecRejection
from specsim.simulation.verification import FixedBudget, PricedBudget, Verification, VerifyMode

MOST_DRAFTS = 2**31 - 1
"""Drafts of a budget at most, as the operation counts them."""

_TABLES: dict[str, Any] = {"step_rates": StepRates, "step_times": StepTimes, "captured_times": CapturedTimes}
"""What a file of costs may have, by its name."""

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
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise Failed(f"--verify-costs {path}: {error.strerror}", Exit.USAGE) from error
    except (ValueError, RecursionError) as error:
        raise Failed(f"--verify-costs {path}: it is no JSON document", Exit.USAGE) from error
    names = list(document) if isinstance(document, dict) else []
    if len(names) != 1 or names[0] not in _TABLES:
        raise Failed(f"--verify-costs {path}: should have one table, {', '.join(_TABLES)}", Exit.USAGE)
    table, values = _TABLES[names[0]], document[names[0]]
    wanted = [field.name for field in fields(table)]
    if not isinstance(values, dict) or sorted(values) != sorted(wanted):
        raise Failed(f"--verify-costs {path}: {names[0]} should have {', '.join(wanted)}", Exit.USAGE)
    for name, value in values.items():
        is_list = name.endswith(("probes", "rates", "times"))
        entries = value if is_list and isinstance(value, list) else [value]
        is_whole = name.endswith("probes") or name == "largest_captured"
        if is_list != isinstance(value, list) or not all(_is_number(entry, is_whole) for entry in entries):
            kind = ("whole " if is_whole else "") + ("numbers" if is_list else "number")
            raise Failed(f"--verify-costs {path}: {name} should be {'' if is_list else 'a '}{kind}", Exit.USAGE)
    try:
        costs: Costs = table(
            **{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        )
    except SpecRejection as rejection:
        raise Failed(f"--verify-costs {path}: {rejection}", Exit.USAGE) from rejection
    return costs


def _is_number(entry: Any, is_whole: bool) -> bool:
    return isinstance(entry, int if is_whole else (int, float)) and not isinstance(entry, bool)


def verified_in_words(figures: Mapping[str, int]) -> str:
    """Return how many drafts were verified, accepted and cut, as users read it."""
    if not figures["num_verified_drafts"]:
        return f"none: all {figures['num_drafts']:,} were cut, and every token is the target's own"
    verified, accepted = f"{figures['num_verified_drafts']:,}", f"{figures['num_accepted_drafts']:,}"
    of_all = f"{verified} of {figures['num_drafts']:,}, {accepted} of them accepted"
    return f"{of_all}; {figures['num_cut_drafts']:,} cut, {figures['num_trimmed_drafts']:,} known to be lost"
