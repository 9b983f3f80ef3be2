"""What the declarations of an implementation leave out of a check: the option that ignores them, and the report."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from specsim.cli.device import path_for
from specsim.conformance.limits import Limits
from specsim.conformance.plain_text import named
from specsim.operations.without_coins import SUFFIX

if TYPE_CHECKING:
    from specsim.properties.suite.conformance.report import Report


TIME_OF_TRIALS = 120


def strict_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--strict``."""
    declared = (
        "Ignore the limits that IMPL declares (LIMITS, EMPTY, CONTIGUOUS, TIES, …), and fail where input that it does"
        " not promise to refuse leads it out of its bounds."
    )
    return click.option("--strict", "is_strict", is_flag=True, help=declared)(command)


def beyond(
    limits: Limits, implementation: str, operations: Sequence[str] = (), seconds: float | None = None
) -> dict[str, str]:
    """Try once, in processes that may die, what lies beyond each limit; return what came of it by what it is.

    Parameters
    ----------
    operations : sequence of str
        Those that are tried; without any all that the implementation has.
    seconds : float, optional
        How long that may take; what is not tried then is not reported.
    """
    found: dict[str, str] = {}
    until = None if seconds is None else time.monotonic() + seconds
    while not limits.at_most({}).are_none:
        patience = float(TIME_OF_TRIALS) if until is None else min(until - time.monotonic(), TIME_OF_TRIALS)
        if patience <= 0:
            break
        tries = "specsim.properties.suite.conformance.beyond"
        command = [sys.executable, "-P", "-m", tries, implementation, str(len(found)), *operations]
        paths = path_for(implementation)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in paths)}
        try:
            ended = subprocess.run(command, env=environment, timeout=patience, check=False, capture_output=True)
            reported, how = ended.stdout, f"crashes (the process ends with {ended.returncode})"
        except subprocess.TimeoutExpired as late:
            reported, how = late.stdout or b"", f"does not end in {patience:.0f} seconds"
        known = len(found)
        for entry in map(json.loads, reported.decode().splitlines()):
            found[entry["what"]] = entry.get("outcome", how)
        if how.endswith(" 0)") or len(found) == known:
            break
    return found


def document(limits: Limits, report: "Report", tried: Callable[[], dict[str, str]]) -> dict[str, Any]:
    """Return what was left out for JSON: what is declared, and by property how many examples were not tried.

    Parameters
    ----------
    tried : callable
        Returns what came of trying once what lies beyond each limit.
    """
    return {
        "declared": limits.in_words(),
        "beyond": tried(),
        "properties": {
            name: {"whole": one.is_excluded, "examples": one.left_out}
            for name, one in report.properties.items()
            if one.left_out
        },
    }


def lines(limits: Limits, report: "Report", tried: Callable[[], dict[str, str]]) -> Iterator[str]:
    """Yield what was left out: a line for everything that is declared of what ran, and for what was not tried by it.

    ``tried`` returns what came of trying once what lies beyond each limit.
    """
    counts = Counter[str]()
    for one in report.properties.values():
        counts.update(one.left_out)
    concerned = _that_ran(limits, report, counts)
    reported = concerned.in_words()
    for words in reported:
        not_tried = f" ({counts[words]:,} example{'s' * (counts[words] > 1)} left out)" if counts[words] else ""
        yield f"excluded: {words}{not_tried}"
    for words, outcome in tried().items() if reported else ():
        if words in reported:
            # NOTE: an outcome begins with the operation, which a limit of it names already.
            operation, _, rest = outcome.partition(": ")
            yield f"tried once: {words}: {rest if words.startswith(f'{operation} ') else outcome}"
    names: dict[str, list[str]] = {}
    for name, one in report.properties.items():
        if one.is_excluded:
            names.setdefault("; ".join(one.left_out), []).append(name)
    for because, excluded in names.items():
        if len(excluded) == 1:
            yield f"excluded: {excluded[0]}, which needs {because}"
        else:
            yield f"excluded: {len(excluded)} properties that need {because}: {named(excluded)}"


def _that_ran(limits: Limits, report: "Report", counts: Counter[str]) -> Limits:
    """Return the limits without those of operations that were not tried."""

    def ran(operation: str) -> bool:
        own = Limits(values={operation: limits.values[operation]}).in_words()
        entries = [report.operations.get(name) for name in (operation, operation + SUFFIX)]
        there = [entry for entry in entries if entry is not None and not entry.missing]
        return any(entry.examples > 0 for entry in there) or (bool(there) and any(counts[words] for words in own))

    return replace(limits, values={name: taken for name, taken in limits.values.items() if ran(name)})
