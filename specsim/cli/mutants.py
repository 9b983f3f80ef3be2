"""``specsim mutants``: which seeded faults the suite catches, and with which property."""

import secrets
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specsim.cli.ci_files import ReportFile, with_report
from specsim.cli.device import choose_device, need_suite
from specsim.cli.documents import circumstances
from specsim.cli.interrupts import finish_undisturbed
from specsim.cli.names import complete_mutants, meant
from specsim.cli.output import (
    EXIT_CODES,
    EXIT_OF_VERDICT,
    Exit,
    Failed,
    announce,
    finish,
    last_line,
    notice,
    plain_table,
    print_json,
    print_table,
    progress,
    reasons_of,
    remark,
    say,
    verdict_of,
)

if TYPE_CHECKING:
    from specsim.properties.mutants.record import Mutant
    from specsim.properties.suite.hunt.matrix import Matrix

SHOWN_PROPERTIES = 3
PATH = click.Path(path_type=Path, dir_okay=False)
EXISTING = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command(epilog=EXIT_CODES)
@click.argument("ids", nargs=-1, metavar="[MUTANT]...", shell_complete=complete_mutants)
@click.option(
    "--seed",
    "--first-seed",
    "first_seed",
    type=click.IntRange(0),
    help="First seed; drawn afresh where there is one seed.",
)
@click.option(
    "--seeds", "num_seeds", default=1, show_default=True, type=click.IntRange(1), help="Number of seeds, from 0."
)
@click.option("--examples", default=30, show_default=True, type=click.IntRange(1), help="Examples of each property.")
@click.option("--complete", is_flag=True, help="Show every mutant to every property, also those that need not see it.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Worker processes.")
@click.option(
    "--with-limits", is_flag=True, help="Let every mutant declare all limits; list those that cannot be seen then."
)
@click.option("--known", type=EXISTING, help="Record of earlier runs, read only; without it, that of --record.")
@click.option("--record", type=PATH, help="Write killers, kills and first examples to this record of kills.")
@with_report
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def mutants(
    ids: tuple[str, ...],
    first_seed: int | None,
    num_seeds: int,
    examples: int,
    complete: bool,
    jobs: int,
    with_limits: bool,
    known: Path | None,
    record: Path | None,
    as_json: bool,
    page: ReportFile,
) -> None:
    """Print which seeded faults the suite catches, and how.

    The kill matrix has each fault, or each MUTANT, with the properties that kill it. Without --complete a mutant
    first meets the properties that kill it by the known record, then the others, until one does. When all mutants are
    run, properties that kill none with any of the seeds are listed as powerless. With --with-limits the records are
    lists of mutants that live: one that lives fails the command unless --known FILE has it, or --record FILE keeps it.
    """
    notice("importing the suite …")
    device = choose_device()
    need_suite()
    from specsim.properties.mutants import all_mutants
    from specsim.properties.suite.catalogue import all_properties
    from specsim.properties.suite.hunt import kills, limits, matrix

    every = {mutant.id: mutant for mutant in all_mutants()}
    unknown = [name for name in ids if name not in every]
    if unknown:
        raise Failed(f"{unknown[0]} is no mutant; {meant(unknown[0], every, 'specsim list mutants')}", Exit.USAGE)
    if first_seed is None:
        first_seed = secrets.randbelow(2**32) if num_seeds == 1 else 0
    seeds = range(first_seed, first_seed + num_seeds)
    read: Callable[[Path], Any] = limits.read_unseen if with_limits else kills.read_kills
    recorded: Any = None if record is None else _recorded(read, record, "--record")
    expected = recorded if known is None else _recorded(read, known, "--known")
    if not as_json:
        announce(_name(seeds))
    with progress("mutants") as on_progress:
        found = matrix.kill_matrix(
            seeds=seeds,
            max_examples=examples,
            mutants=[every[name] for name in ids] or None,
            is_complete=complete,
            judges_properties=not ids and not with_limits,
            known=None if with_limits else expected,
            limits=limits.EVERY_LIMIT if with_limits else limits.NO_LIMITS,
            jobs=jobs,
            on_progress=on_progress,
        )
    finish_undisturbed()
    if found.is_interrupted:
        record = None
    unseen: frozenset[str] = expected if with_limits and expected else frozenset()
    if record is not None and with_limits:
        kept = frozenset(limits.updated(recorded, found.kills, found.survivors, every))
        unseen = kept if known is None else unseen
        _write(limits.write_unseen, kept, record)
    elif record is not None:
        _write(kills.write_kills, kills.updated(recorded, found.by_seed, every, all_properties()), record)
    under_limits = {"unseen": [name for name in found.survivors if name in unseen]} if with_limits else {}
    verdict = _verdict(found, unseen)
    reported = {"verdict": verdict, "inconclusive_because": reasons_of(verdict, found.inconclusive_because)}
    about = circumstances(_last_line(found, unseen), device, first_seed)
    document = {**_document(found, every), **reported, **under_limits, **about}
    if as_json:
        print_json(document)
    else:
        _print(found, unseen)
    page.write(document)
    lives = (f"{name} lives with seed {seed}" for name, seed in found.survived)
    finish(EXIT_OF_VERDICT[verdict], "; ".join([_last_line(found, unseen), *lives]))


def _recorded(read: Callable[[Path], Any], record: Path, option: str) -> Any:
    """Read what a record says before anything is run.

    Raises
    ------
    Failed
        USAGE: it is no record of kills, or cannot be read.
    """
    try:
        return read(record)
    except OSError as error:
        raise Failed(f"{option} {record}: {error.strerror}", Exit.USAGE) from error
    except ValueError as error:
        because = "its killers come first, and what is written is what it says and what was found"
        raise Failed(
            f"{option} {record} is no record of kills ({error}), but should be, because {because}", Exit.USAGE
        ) from error


def median_of(found: "Matrix", mutant: str) -> float | None:
    """Return the median of the examples at which a mutant died first; None if it lives with half of the seeds."""
    from specsim.properties.suite.hunt.kills import median_example

    middle = median_example(found.first_examples(mutant))
    return middle if isfinite(middle) else None


def _document(found: "Matrix", every: Mapping[str, "Mutant"]) -> dict[str, object]:
    rows = []
    for name, by in found.kills.items():
        examples = found.first_examples(name)
        died = sum(example is not None for example in examples)
        middle = median_of(found, name)
        row = {"id": name, "killed_by": list(by), "seeds": died, "first_examples": list(examples), "median": middle}
        rows.append({**row, "operation": every[name].operation, "summary": every[name].summary})
    return {
        "total": len(found.kills),
        "killed": len(found.kills) - len(found.survivors),
        "seed": found.seeds[0],
        "seeds": list(found.seeds),
        "mutants": rows,
        "survivors": list(found.survivors),
        "survived": [{"id": name, "seed": seed} for name, seed in found.survived],
        "powerless": list(found.powerless),
    }


def _write(write: Callable[[Any, Path], None], what: object, record: Path) -> None:
    try:
        write(what, record)
    except OSError as error:  # NOTE: an hour's matrix is worth more than its record.
        remark(f"--record {record}: {error.strerror}; the matrix is printed only")


def _print(found: "Matrix", unseen: frozenset[str]) -> None:
    table = plain_table("mutant", "#seeds", "#first example", "#killed by", "properties")
    for name, by in found.kills.items():
        examples = [example for example in found.first_examples(name) if example is not None]
        span = " to ".join(dict.fromkeys(str(bound(examples)) for bound in (min, max) if examples)) or "-"
        middle = median_of(found, name) if len(found.seeds) > 1 else None
        span += "" if middle is None else f", median {middle:g}"
        shown = ", ".join(by[:SHOWN_PROPERTIES]) + (" …" if len(by) > SHOWN_PROPERTIES else "")
        table.add_row(name, str(len(examples)), span, str(len(by)), shown or "SURVIVES")
    print_table(table)
    for name, seed in found.survived:
        what = "not seen under the limits" if name in unseen else "survivor"
        say(f"{what}: {name} lives with seed {seed}")
    for name in found.powerless:
        say(f"powerless: {name} kills no mutant")
    say(_last_line(found, unseen))


def _verdict(found: "Matrix", unseen: frozenset[str]) -> str:
    survivors = [name for name in found.survivors if name not in unseen]
    return verdict_of(is_interrupted=found.is_interrupted, wrong=survivors, because=found.inconclusive_because)


def _last_line(found: "Matrix", unseen: frozenset[str]) -> str:
    killed = len(found.kills) - len(found.survivors)
    counted = f"{killed} of {len(found.kills)} mutants killed, {_name(found.seeds)}"
    verdict = _verdict(found, unseen)
    if verdict == "interrupted":
        return f"{verdict}: {counted}"
    return last_line(verdict, counted, found.inconclusive_because) if verdict == "inconclusive" else counted


def _name(seeds: range | tuple[int, ...]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
