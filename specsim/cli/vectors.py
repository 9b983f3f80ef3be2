"""``specsim vectors``: calls and what they give, in files, for engines that test themselves in any language."""

from collections import Counter
from pathlib import Path

import click

from specsim.cli.device import need_suite
from specsim.cli.env import versions_with_python
from specsim.cli.names import SEED, Count, Name
from specsim.cli.output import (
    EXIT_CODES,
    Exit,
    Failed,
    notice,
    plain_table,
    print_json,
    print_table,
    progress,
    say,
)
from specsim.operations import RECORDS, TABLE

VERSIONS = ("numpy", "hypothesis", "safetensors")
CASES = Count(1, 1000, "each operation has so many, and all of them are in memory at once")


@click.command(epilog=EXIT_CODES)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option(
    "--operation",
    "operations",
    multiple=True,
    metavar="NAME",
    type=Name("operation", lambda: RECORDS),
    help="Write vectors of this operation; repeatable.  [default: all but those of the toy models]",
)
@click.option("--cases", "num_cases", default=20, show_default=True, type=CASES, help="Drawn cases of each operation.")
@click.option("--seed", default=0, show_default=True, type=SEED, help="Seed of what is drawn.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def vectors(folder: Path, operations: tuple[str, ...], num_cases: int, seed: int, as_json: bool) -> None:
    """Write vectors into DIR: calls, what they give, and by how much that may differ.

    They are the worked examples of the semantics, calls that are drawn, and calls that are to be refused. DIR is empty,
    not there, or holds older vectors, which are replaced. docs/any-language.md describes the files.
    """
    notice("importing the suite …")
    need_suite()
    from specsim.vectors.drawn import vectors_of
    from specsim.vectors.files import NoFolderOfVectors, clear, write_manifest, write_vectors

    try:
        clear(folder)
    except NoFolderOfVectors as error:
        raise Failed(f"{error}", Exit.USAGE) from error
    names = [name for name in RECORDS if name in (operations or TABLE)]
    entries = {}
    with progress("vectors") as on_progress:
        for done, name in enumerate(names):
            if on_progress is not None:
                on_progress(name, done, len(names))
            entries[name] = write_vectors(folder, name, vectors_of(name, num_cases, seed))
    write_manifest(folder, entries, seed, versions_with_python(VERSIONS))
    counted = ("num_cases", "num_rejections", "left_out")
    if as_json:
        print_json(
            {"seed": seed, "operations": {name: {key: one[key] for key in counted} for name, one in entries.items()}}
        )
        return
    table = plain_table("operation", "#cases", "#rejections", "#left out")
    left_out = Counter[str]()
    for name, one in entries.items():
        table.add_row(name, f"{one['num_cases']:,}", f"{one['num_rejections']:,}", f"{sum(one['left_out'].values()):,}")
        left_out.update(one["left_out"])
    print_table(table)
    for because, count in sorted(left_out.items()):
        say(f"left out: {count:,} {'call' if count == 1 else 'calls'}, {because}")
    num_cases = sum(one["num_cases"] for one in entries.values())
    num_rejections = sum(one["num_rejections"] for one in entries.values())
    say(f"{num_cases:,} cases and {num_rejections:,} rejections of {len(entries)} operations in {folder}, seed {seed}")
