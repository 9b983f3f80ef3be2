"""What the options of a campaign mean: seeds, a runtime environment, and what a campaign that is resumed says."""

import json
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import specsim
from specsim.cli.names import Count, meant
from specsim.cli.output import Exit, Failed

if TYPE_CHECKING:
    from specsim.campaigns.plan import Seeds, Wanted
    from specsim.campaigns.units import Kind
    from specsim.campaigns.workshop import Terms

KINDS = ("property", "machine", "cell", "mutant")
BY_DEFAULT = KINDS[:3]
REFERENCE = "specsim.reference"
RANGE = re.compile(r"(\d+)\.\.(\d+)")
MOST_SEED = 2**32 - 1
EXAMPLES = Count(1, 100_000, "more of them are more seeds")
PLACES = Count(1, 100_000, "no cluster has more processes")
HOURS = click.FloatRange(0, 10_000, min_open=True)
GPUS = click.FloatRange(0, 64)


def seeds_of(seeds: str | None, seed: int | None, hours: float | None, there: dict[str, Any] | None) -> "Seeds":
    """Return the seeds of a campaign; those of one that is resumed, where nothing else is said.

    Raises
    ------
    Failed
        USAGE: they are none, or both an end and hours are given, or neither.
    """
    from specsim.campaigns.plan import Seeds

    if seeds is not None and hours is not None:
        because = "a campaign ends with its seeds or with its hours"
        raise Failed(f"--hours is {hours:g}, but should be absent beside --seeds, because {because}", Exit.USAGE)
    if seeds is not None and seed is not None:
        because = f"the first seed of {seeds} is there"
        raise Failed(f"--seed is {seed}, but should be absent beside --seeds, because {because}", Exit.USAGE)
    if seeds is not None:
        found = RANGE.fullmatch(seeds)
        if found is None or not int(found[1]) <= int(found[2]) <= MOST_SEED:
            because = f"units take the seeds from A to B, and a seed is at most {MOST_SEED:,}"
            raise Failed(f"--seeds is {seeds}, but should be A..B, such as 0..99, because {because}", Exit.USAGE)
        return Seeds(int(found[1]), int(found[2]))
    if there is not None and seed is None:
        return Seeds(there["seeds"]["first"], there["seeds"]["last"])
    if hours is None and there is None:
        raise Failed("a campaign needs --hours H or --seeds A..B: it would not end", Exit.USAGE)
    return Seeds(secrets.randbelow(2**32) if seed is None else seed)


def hours_of(hours: float | None, seeds: "Seeds") -> float | None:
    """Return the hours of a campaign.

    Raises
    ------
    Failed
        USAGE: it is resumed, and would not end; or it ends by its seeds.
    """
    if hours is None and seeds.last is None:
        raise Failed("the campaign has no last seed, and needs --hours H: those of all its sessions", Exit.USAGE)
    if hours is not None and seeds.last is not None:
        because = f"the campaign that is resumed ends with seed {seeds.last}"
        raise Failed(f"--hours is {hours:g}, but should be absent, because {because}", Exit.USAGE)
    return hours


def read_runtime_env(path: Path | None) -> dict[str, Any] | None:
    """Return the runtime environment in a file; None without one.

    Raises
    ------
    Failed
        USAGE: it is no JSON object.
    """
    if path is None:
        return None
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise Failed(f"--runtime-env {path} is no JSON: {error}", Exit.USAGE) from error
    if not isinstance(read, dict):
        because = "that is how Ray documents a runtime environment"
        got = type(read).__name__
        raise Failed(f"--runtime-env {path} holds {got}, but should hold an object, because {because}", Exit.USAGE)
    return read


def kinds_of(kinds: Sequence[str], names: Sequence[str], implementation: str) -> "tuple[Kind, ...]":
    """Return the kinds of units that are run, without any given those of the names; laws go with cells.

    Raises
    ------
    Failed
        USAGE: nothing of these kinds is called so, or mutants are asked for of something else than the reference.
    """
    from specsim.campaigns.units import Kind

    of_names = {name: _kind_of(name) for name in names}
    chosen = tuple(dict.fromkeys(kinds or of_names.values() or BY_DEFAULT))
    for name, kind in of_names.items():
        if kind not in chosen:
            because = f"{name} is a {kind}"
            raise Failed(f"--of is {', '.join(chosen)}, but should have {kind}, because {because}", Exit.USAGE)
    if "mutant" in chosen and implementation != REFERENCE:
        because = "faults are planted in the reference"
        raise Failed(f"IMPL is {implementation}, but should be {REFERENCE} of mutants, because {because}", Exit.USAGE)
    more = {"cell": (Kind.CELL, Kind.LAW)}
    return tuple(kind for name in chosen for kind in more.get(name, (Kind(name),)))


def _kind_of(name: str) -> str:
    """Return what a name is that of.

    Raises
    ------
    Failed
        USAGE: nothing is called so.
    """
    from specsim.properties.matrix.factors import cell_named
    from specsim.properties.mutants import all_mutants
    from specsim.properties.suite.catalogue import properties_by_name

    if name in properties_by_name():
        return "property"
    if cell_named(name) is not None:
        return "cell"
    mutants = [mutant.id for mutant in all_mutants()]
    if name in mutants:
        return "mutant"
    words = meant(name, [*properties_by_name(), *mutants], "specsim list properties, cells or mutants")
    raise Failed(f"{name} is no property, cell or mutant; {words}", Exit.USAGE)


def described(wanted: "Wanted", terms: "Terms") -> dict[str, Any]:
    """Return what a campaign is, as its folder says it: what decides its units, and what they count."""
    return {
        "implementation": terms.implementation,
        "specsim": specsim.__version__,
        "kinds": [kind.value for kind in wanted.kinds],
        "seeds": {"first": wanted.seeds.first, "last": wanted.seeds.last},
        "names": list(wanted.names),
        "examples": wanted.examples,
        "call_timeout": terms.limits.call,
        "timeout": terms.limits.job,
    }


def seeds_in_words(seeds: "Seeds") -> str:
    """Return which seeds a campaign has, for its first line and its last."""
    return f"seeds {seeds.first}..{seeds.last}" if seeds.last is not None else f"seed {seeds.first}"
