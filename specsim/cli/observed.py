"""``specsim replay --observed``: what was recorded against the reference; no implementation is run."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NoReturn

from specsim.cli.device import need_suite
from specsim.cli.output import (
    EXIT_OF_VERDICT,
    Exit,
    Failed,
    finish,
    last_line,
    plain_table,
    print_json,
    print_table,
    progress,
    reasons_of,
    say,
    verdict_of,
)
from specsim.conformance.backend import load
from specsim.conformance.cases import Case, read_case
from specsim.conformance.limits import Limits
from specsim.conformance.outcomes import observe
from specsim.conformance.plain_text import shown, shown_path
from specsim.conformance.stored import OBSERVED


class Said(Enum):
    """What the reference says of a recorded call; the value is what is printed."""

    AGREES = "+ AGREES"
    CONTRADICTED = "x CONTRADICTED"
    UNDECIDED = "? UNDECIDED"


@dataclass(frozen=True)
class Judged:
    """A recorded call, what is said of it, where it differs first, and whether a margin or a tie excuses that."""

    path: Path
    operation: str
    said: Said
    difference: str
    is_excused: bool


def replay_observed(paths: Sequence[Path], implementation: str | None, as_json: bool) -> NoReturn:
    """Compare recorded outputs with those of the reference, and end the command.

    Raises
    ------
    Failed
        USAGE: an implementation is named; NOTHING_SELECTED: a folder has no case files.
    """
    if implementation is not None:
        raise Failed(f"--observed runs no implementation, and so not {implementation}", Exit.USAGE)
    need_suite()
    files = [file for path in paths for file in _files_of(path)]
    judged = []
    with progress("replay") as on_progress:
        for done, path in enumerate(files):
            if on_progress is not None:
                on_progress(path.name, done, len(files))
            judged.append(judge(path, read_case(path)))
    because = [f"{one.path.name}: {one.difference}" for one in judged if one.said is Said.UNDECIDED]
    wrong = [one.difference for one in judged if one.said is Said.CONTRADICTED]
    verdict = verdict_of(is_interrupted=False, wrong=wrong, because=because)
    line = last_line(verdict, _summary(judged), because) if verdict == "inconclusive" else _summary(judged)
    if as_json:
        reported = {"inconclusive_because": reasons_of(verdict, because)}
        print_json({"cases": [_document(one) for one in judged], **reported})
    else:
        _print(judged)
        say(line)
    finish(EXIT_OF_VERDICT[verdict], line)


def _files_of(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = sorted(path.glob("*.json"))
    if not found:
        raise Failed(f"{shown_path(path)} has no case files", Exit.NOTHING_SELECTED)
    yield from found


def judge(path: Path, case: Case) -> Judged:
    """Compare as ``agreement.*`` does; a call that both refuse is no difference, however an engine refuses it."""
    from specsim.properties.generated.margin_cases import counting, difference_beyond_margins
    from specsim.properties.strategies.limits import drawing_within

    is_recorded = case.kind == OBSERVED
    expected = case.expected if is_recorded else observe(load("specsim.reference"), case.operation, case.arguments)
    if expected.error:
        return Judged(path, case.operation, Said.UNDECIDED, shown(f"the reference raises {expected.error}"), False)
    if expected.rejection and case.observed.error:
        return Judged(path, case.operation, Said.AGREES, "", False)
    limits = Limits(ties_are_free=case.ties_are_free)
    with drawing_within(limits, (case.operation,)), counting() as count:
        difference = difference_beyond_margins(case.operation, case.arguments, expected, case.observed)
    said = Said.AGREES if difference is None else Said.CONTRADICTED
    return Judged(path, case.operation, said, shown(difference or ""), count.calls > 0)


def _print(judged: Sequence[Judged]) -> None:
    for one in judged:
        if one.said is not Said.AGREES:
            say(f"{one.said.value} {shown_path(one.path)}  {one.operation}\n    {one.difference}")
    table = plain_table("operation", "#recorded", "#contradicted", "#margin cases")
    for name in dict.fromkeys(one.operation for one in judged):
        of_it = [one for one in judged if one.operation == name]
        num_contradicted = sum(one.said is Said.CONTRADICTED for one in of_it)
        table.add_row(name, f"{len(of_it):,}", f"{num_contradicted:,}", f"{sum(one.is_excused for one in of_it):,}")
    print_table(table)


def _summary(judged: Sequence[Judged]) -> str:
    counted = Counter(one.said for one in judged)
    undecided = f", {counted[Said.UNDECIDED]:,} undecided" if counted[Said.UNDECIDED] else ""
    return f"{len(judged):,} recorded calls: {counted[Said.CONTRADICTED]:,} contradicted{undecided}"


def _document(one: Judged) -> dict[str, object]:
    return {
        "path": str(one.path),
        "operation": one.operation,
        "outcome": one.said.name,
        "difference": one.difference,
        "margin_case": one.is_excused,
    }
