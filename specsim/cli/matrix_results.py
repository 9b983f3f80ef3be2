"""What ``specsim matrix`` found, as a table and as a document."""

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specsim.cli.ci_files import Outcome, Tried
from specsim.cli.documents import FAILED, FailureRecord, PropertyRecord, record_of, shared_document
from specsim.cli.isolation import words_of
from specsim.cli.output import plain_table, print_table, reasons_of, say, verdict_of
from specsim.cli.ran import lines_of

if TYPE_CHECKING:
    from specsim.conformance.isolation.jobs import Limits
    from specsim.properties.matrix.covering import Combination
    from specsim.properties.matrix.factors import Cell
    from specsim.properties.matrix.laws import LawResult
    from specsim.properties.matrix.plan import Plan
    from specsim.properties.matrix.run import CellResult, Result
    from specsim.properties.unit_of_work import BrokenUnit

SHORT = {"partial_rejections": "partial", "prefix_hits": "hits", "cut_drafts": "cut"}
"""What counts are called over their columns, where their names would take the room of the cell's."""

OUTCOMES = {"fails": Outcome.FAILED, "inconclusive": Outcome.ERROR, "conforms": Outcome.PASSED}
"""What became of the test of a cell, by the cell's verdict."""

Place = tuple[str, str, int]
"""A history: its cell, the mode of the workers, and its number."""


@dataclass(frozen=True)
class Report:
    """All that there is to say about one run."""

    implementation: str
    layer: str
    profile: str
    plan: "Plan"
    result: "Result"
    complaints: list[str]
    shortest: "dict[Place, BrokenUnit]"
    limits: "Limits"

    @property
    def verdict(self) -> str:
        """What the run came to."""
        result = self.result
        return verdict_of(
            is_interrupted=result.is_interrupted, wrong=self.complaints, because=result.inconclusive_because
        )


def matrix_document(report: Report) -> dict[str, object]:
    """Return the JSON document of a run."""
    from specsim.properties.matrix.factors import FACTORS

    plan, result = report.plan, report.result
    return {
        **shared_document(report.verdict, _failure_records(report), _property_records(report)),
        "inconclusive_because": reasons_of(report.verdict, result.inconclusive_because),
        "implementation": report.implementation,
        "layer": report.layer,
        "profile": report.profile,
        "seed": result.seed,
        "factors": {name: list(values) for name, values in FACTORS.items()},
        "cells": [_cell_document(one, report) for one in result.cells],
        "pairs": _covered(plan, 2),
        "triples": _covered(plan, 3),
        "product": {
            "cells": len(plan.allowed) + len(plan.refused),
            "allowed": len(plan.allowed),
            "refused": len(plan.refused),
        },
        "refused": [
            {
                "combination": dict(one.combination),
                "cells": one.num_cells,
                "reasons": [{"by": refusal.by, "because": refusal.because} for refusal in one.refusals],
            }
            for one in plan.left_out
        ],
        "ran": plan.brings.ran(result.ran),
        "did_not_run": plan.brings.did_not_run(result.ran),
        "laws": [_law_document(one, report) for one in result.laws],
        "histories": result.num_histories,
        "failures": result.num_failures,
        "law_failures": sum(one.error is not None for one in result.laws),
        "complaints": report.complaints,
        "seconds": round(result.seconds, 1),
    }


def tests_of(report: Report) -> tuple[Tried, ...]:
    """Return a test for each cell, and one for each law."""
    from specsim.properties.matrix.verdict import complaints_of, shortfalls_of, verdict_of_cell

    tests = []
    for one in report.result.cells:
        wrong = [*complaints_of(one), *shortfalls_of(one)]
        numbers = list(dict.fromkeys((*one.failures, *one.short)))[:1]
        shortest = [
            line for place, reported in report.shortest.items() if place[0] == one.cell.name for line in reported.lines
        ]
        replays = [f"replay: {_replay_line(report, one.cell, number)}" for number in numbers]
        outcome = OUTCOMES[verdict_of_cell(one)]
        text = "\n".join([*wrong[1:], *shortest, *replays])
        tests.append(Tried(f"cells.{one.mode}", one.cell.name, outcome, "".join(wrong[:1]), text))
    for law in report.result.laws:
        outcome = Outcome.PASSED if law.error is None else Outcome.FAILED
        text = "" if law.error is None else f"replay: {_replay_line(report, law.cell)}"
        tests.append(Tried(f"laws.{law.mode}", law.cell.name, outcome, law.error or "", text))
    return tuple(tests)


def print_matrix(report: Report) -> None:
    """Print the table, what is refused, what is covered, and every failure."""
    from specsim.properties.matrix.history import COUNTED
    from specsim.properties.matrix.verdict import verdict_of_cell

    plan, result = report.plan, report.result
    modes = {one.mode for one in result.cells}
    counted = [f"#{SHORT.get(name, name)}" for name in COUNTED]
    table = plain_table("cell", *(["mode"] if len(modes) > 1 else []), "#histories", *counted, "verdict")
    for one in result.cells:
        counts = [f"{count:,}" for count in (one.num_histories, *(one.counts[name] for name in COUNTED))]
        verdict = verdict_of_cell(one).replace("fails", "FAILS")
        table.add_row(one.cell.name, *([one.mode] if len(modes) > 1 else []), *counts, verdict)
    print_table(table)
    _print_refused(plan)
    for what, strength in (("pairs", 2), ("triples", 3)):
        covered = _covered(plan, strength)
        say(f"{covered['covered']:,} of {covered['allowed']:,} allowed {what} of values are covered")
    _print_laws(report)
    for line in lines_of(plan.brings, result.ran):
        say(line)
    say(f"{result.seconds:.0f} seconds")
    for line in report.complaints:
        say(f"FAILURE: {line}")
    for line in result.inconclusive_because:
        say(f"undecided: {line}")
    for (cell, _, number), failure in report.shortest.items():
        say(f"\nShortest history {number} of {cell}: {failure.error}")
        for line in failure.lines:
            say(f"  {line}")
    for one in result.cells:
        for number in (*one.failures, *one.short)[:1]:
            say(f"replay: {_replay_line(report, one.cell, number)}")
    for law in result.laws:
        if law.error is not None:
            say(f"replay: {_replay_line(report, law.cell)}")


def _print_laws(report: Report) -> None:
    """Print how far the law of sampled requests was gone through."""
    laws = report.result.laws
    if laws:
        runs, seeded = sum(one.num_runs for one in laws), sum(one.num_seeded for one in laws)
        refused = [one.refused for one in laws if one.refused]
        holding = sum(one.error is None for one in laws) - len(refused)
        say(
            f"{holding} of {len(laws)} laws of sampled requests hold: "
            f"{runs:,} ways to go, {seeded:,} of which the worker went by a seed"
        )
        if refused:
            say(f"not tried: {len(refused)} of these laws, because of {refused[0]}")


def _print_refused(plan: "Plan") -> None:
    """Print what no cell may have together, and why."""
    if not plan.left_out:
        return
    table = plain_table("refused", "#cells", "by", "because")
    for one in plan.left_out:
        for place, refusal in enumerate(one.refusals):
            name, count = (_reported(one.combination), f"{one.num_cells:,}") if place == 0 else ("", "")
            table.add_row(name, count, refusal.by, refusal.because)
    print_table(table)


def _reported(combination: "Combination") -> str:
    return ", ".join(
        f"{name} {'on' if value is True else 'off' if value is False else value}" for name, value in combination
    )


def _covered(plan: "Plan", strength: int) -> dict[str, int]:
    covered, allowed = plan.covered(strength)
    return {"covered": covered, "allowed": allowed}


def _failure_records(report: Report) -> list[FailureRecord]:
    from specsim.properties.matrix.verdict import unnumbered_complaints

    records = []
    for one in report.result.cells:
        name = _property_of(one)
        for number, failure in one.failures.items():
            shortest = report.shortest.get((one.cell.name, one.mode, number))
            records.append(record_of(name, failure.error, number, _replay_line(report, one.cell, number), shortest))
        for number, missing in one.short.items():
            records.append(record_of(name, "; ".join(missing), number, _replay_line(report, one.cell, number)))
        records += [FailureRecord("", name, FAILED, words) for words in unnumbered_complaints(one)]
    for law in report.result.laws:
        if law.error is not None:
            records.append(record_of(_property_of(law), law.error, None, _replay_line(report, law.cell)))
    if report.result.stopped:
        records.append(FailureRecord("", "run", FAILED, report.result.stopped))
    return records


def _property_records(report: Report) -> dict[str, PropertyRecord]:
    from specsim.properties.matrix.verdict import complaints_of

    records = {}
    for one in report.result.cells:
        first = min((*one.failures, *one.short), default=None)
        is_failed = bool(complaints_of(one))
        records[_property_of(one)] = PropertyRecord(one.num_histories, is_failed, one.seconds, first, one.drafts)
    for law in report.result.laws:
        is_failed = law.error is not None
        records[_property_of(law)] = PropertyRecord(law.num_runs, is_failed, law.seconds, drafts=law.drafts)
    return records


def _property_of(one: "CellResult | LawResult") -> str:
    """Return what the histories of a cell, or its law, are called as a property: as tests of CI are."""
    from specsim.properties.matrix.laws import LawResult

    return f"{'laws' if isinstance(one, LawResult) else 'cells'}.{one.mode}.{one.cell.name}"


def _cell_document(one: "CellResult", report: Report) -> dict[str, object]:
    from specsim.properties.matrix.history import COUNTED
    from specsim.properties.matrix.verdict import verdict_of_cell

    failures = [
        {
            "history": number,
            "error": failure.error,
            "replay": _replay_line(report, one.cell, number),
            "shortest": list(report.shortest[place].lines) if place in report.shortest else None,
        }
        for number, failure in one.failures.items()
        for place in [(one.cell.name, one.mode, number)]
    ]
    return {
        "name": one.cell.name,
        **vars(one.cell),
        "mode": one.mode,
        "verdict": verdict_of_cell(one),
        "histories": one.num_histories,
        **{name: one.counts[name] for name in COUNTED},
        "leaked_slots": one.num_leaked,
        "failures": failures,
        "short": {str(number): missing for number, missing in one.short.items()},
    }


def _law_document(one: "LawResult", report: Report) -> dict[str, object]:
    return {
        "cell": one.cell.name,
        "mode": one.mode,
        "algorithm": one.cell.algorithm,
        "shape": "tree" if one.cell.topk > 1 else "chain",
        "worker": one.cell.worker,
        "page_size": one.cell.page_size,
        "runs": one.num_runs,
        "outcomes": one.num_outcomes,
        "runs_with_accepted_drafts": one.num_with_drafts,
        "seeded_runs": one.num_seeded,
        "verdict": "fails" if one.error is not None else "not tried" if one.refused else "conforms",
        "refused": one.refused,
        "error": one.error,
        "replay": None if one.error is None else _replay_line(report, one.cell),
    }


def _replay_line(report: Report, cell: "Cell", number: int | None = None) -> str:
    """Return the command that runs a history again, or the law of a cell."""
    what = "--law" if number is None else f"--history {number}"
    run = f"{shlex.quote(report.implementation)} --seed {report.result.seed}"
    return f"specsim matrix {run} --cell {cell.name} {what}{words_of(report.limits)}"
