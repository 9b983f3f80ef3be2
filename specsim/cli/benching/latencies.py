"""What ``specsim bench`` prints: one document of rows, as JSON or as a table of some of its keys."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import click

from specsim.cli.benching.baseline import TOLERANCE, Baseline, Row
from specsim.cli.output import EXIT_OF_VERDICT, Exit, Failed, finish, plain_table, print_json, print_table, remark

Column = tuple[str, Callable[[Row], str]]
"""The title of a column, and the cell of a row."""


def words(key: str) -> Callable[[Row], str]:
    """Return what prints an entry as it is."""
    return lambda row: str(row[key])


def number(key: str, digits: int = 2) -> Callable[[Row], str]:
    """Return what prints a number with so many digits, and a dash where there is none."""
    return lambda row: "-" if row[key] is None else f"{row[key]:,.{digits}f}"


def share(key: str) -> Callable[[Row], str]:
    """Return what prints a share in percent, and a dash where there is none."""
    return lambda row: "-" if row[key] is None else f"{row[key]:.0%}"


def spread(digits: int = 2) -> Callable[[Row], str]:
    """Return what prints the range of a row."""
    return lambda row: f"{row['low_us']:.{digits}f} to {row['high_us']:.{digits}f}"


def _launches(row: Row) -> str:
    launches = "-" if row["num_launches"] is None else str(row["num_launches"])
    return launches if row["target_launches"] is None else f"{launches} of {row['target_launches']}"


NAMES: tuple[Column, ...] = (("operation", words("operation")), ("shape", words("shape")))
MEDIANS: tuple[Column, ...] = (("median µs", number("median_us")), ("5 % to 95 %", spread()))
OF_KNOWN_SHAPES: tuple[Column, ...] = (
    *NAMES,
    ("median µs", number("median_us", 1)),
    ("5 % to 95 %", spread(1)),
    ("engines today µs", words("engines_us")),
    ("host µs", number("host_us", 1)),
    ("prepared µs", number("prepared_us", 1)),
)
OF_ALL: tuple[Column, ...] = (
    *(*NAMES, *MEDIANS),
    ("floor µs", number("floor_us")),
    ("times floor", number("times_floor")),
    ("launches", number("num_launches", 0)),
    ("bytes", number("num_bytes", 0)),
    ("of copy", share("share_of_copy")),
    ("eager µs", number("eager_us", 1)),
    ("torch µs", number("torch_us")),
)
OF_TARGETS: tuple[Column, ...] = (
    *(*NAMES, ("target µs", number("target_us", 1)), *MEDIANS),
    ("times target", number("times_target")),
    ("share of floor", share("share_of_floor")),
    ("launches", _launches),
)
OF_A_BASELINE: Column = ("times baseline", number("times_baseline"))
OF_A_PEER: tuple[Column, ...] = (("peer µs", number("peer_us")), ("peer / ours", number("peer_times_ours")))


@dataclass(frozen=True)
class Timings:
    """What was timed.

    Parameters
    ----------
    about : mapping
        The entries of the document before its rows.
    title : str
        Of the table.
    columns : sequence of (title, cell of a row)
        Of the table.
    rows : sequence of mappings
        What the document has under the key.
    unmeasured : sequence of mappings
        Rows that could not be timed, and why.
    key : str
        Of the rows.
    is_interrupted : bool
        Whether there would be more rows.
    """

    about: Mapping[str, Any]
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    unmeasured: Sequence[Row] = ()
    key: str = "rows"
    is_interrupted: bool = False

    @property
    def document(self) -> dict[str, Any]:
        """What JSON has."""
        interrupted = {"is_interrupted": True} if self.is_interrupted else {}
        return {**self.about, **interrupted, self.key: self.rows, "unmeasured": self.unmeasured}

    def beside(self, baseline: Baseline) -> "Timings":
        """Return the same with how many times as long as in a baseline each row takes."""
        return replace(self, columns=(*self.columns, OF_A_BASELINE), rows=baseline.beside(self.rows))

    def save(self, path: Path) -> None:
        """Write the document; a file that cannot be written any more is named on stderr."""
        try:
            path.write_text(json.dumps(self.document, indent=2), "utf-8")
        except OSError as error:
            remark(f"--save {path}: {error.strerror}; it is not written")

    def give(self, markdown: bool, as_json: bool) -> None:
        """Print the document, or a table."""
        if as_json:
            print_json(self.document)
            return
        titles = [title for title, _ in self.columns]
        cells = [[cell(row) for _, cell in self.columns] for row in self.rows]
        if markdown:
            click.echo("\n".join([_line(titles), _line(["---"] * len(titles)), *map(_line, cells)]))
            return
        table = plain_table(*titles, title=self.title)
        for row in cells:
            table.add_row(*row)
        print_table(table)

    def conclude(self, baseline: Baseline | None = None, tolerance: float = TOLERANCE) -> "Conclusion":
        """Return how the command ends: as a failure where a row could not be timed, or takes longer than before."""
        reasons = [f"{one['operation']}, {one['shape']}: {one['error']}" for one in self.unmeasured]
        counted, code = f"{len(self.rows)} rows were timed", Exit.CONFORMS
        if self.unmeasured:
            counted, code = f"{counted}, and {len(self.unmeasured)} could not be", Exit.FAILURE
        if baseline is not None:
            compared = [row for row in self.rows if row["times_baseline"] is not None]
            slower = [row for row in compared if row["times_baseline"] > 1 + tolerance]
            for row in slower:
                times = f"{row['median_us']:.2f} µs are {row['times_baseline']:.2f} times as long as in {baseline.path}"
                reasons.append(f"{row['operation']}, {row['shape']}: {times}")
            counted += (
                f"; {len(slower)} of {len(compared)} in {baseline.path} take over {1 + tolerance:g} times as long"
            )
            code = Exit.FAILURE if slower else code
            if not compared and not self.unmeasured:
                counted, code = f"{counted}: it has none of these rows", Exit.NOTHING_SELECTED
        if self.is_interrupted:
            counted, code = f"{counted} before the interrupt", Exit.INTERRUPTED
        return Conclusion(counted, code, tuple(reasons))


@dataclass(frozen=True)
class Conclusion:
    """The last line of the command, its exit code, and what is wrong with rows, a line each."""

    line: str
    code: Exit
    reasons: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """The word for the exit code."""
        return next(verdict for verdict, code in EXIT_OF_VERDICT.items() if code is self.code)

    def end(self) -> NoReturn:
        """End the command; on stderr unless all is well."""
        for reason in self.reasons:
            remark(reason)
        if self.code != Exit.CONFORMS:
            raise Failed(self.line, self.code)
        finish(self.code, self.line)


def gather(measured: Iterable[Any]) -> tuple[list[Any], bool]:
    """Return rows as they are measured, and whether an interrupt ended that; one before the first row is passed on."""
    rows: list[Any] = []
    try:
        rows.extend(measured)
    except KeyboardInterrupt:
        if not rows:
            raise
        return rows, True
    return rows, False


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
