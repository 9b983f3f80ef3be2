"""The record of past runs: with how many seeds a mutant died, at which example, and who kills whom."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from statistics import mean, median
from typing import Any

import msgspec

from specsim.properties.property import Property
from specsim.properties.suite.hunt.hunt import BySeed, first_example, is_law

MOST_KILLERS = 3
"""Killers of a kind, generated or law, that the record keeps of a mutant."""


@dataclass(frozen=True)
class Row:
    """What is recorded of one mutant.

    Parameters
    ----------
    seeds : int
        How many of the seeds killed it.
    examples : tuple of (int or None)
        For each seed, the example at which it died first; None where it lived.
    killers : tuple of str
        Properties that kill it, the surest first.
    """

    seeds: int
    examples: tuple[int | None, ...]
    killers: tuple[str, ...]

    @property
    def median(self) -> float:
        """The example at which it died first with every other seed, or before; infinite if it lives with half."""
        return median_example(self.examples)


@dataclass(frozen=True)
class Kills:
    """Rows by mutant, and for each property a mutant that it kills."""

    rows: dict[str, Row] = field(default_factory=dict)
    victims: dict[str, str] = field(default_factory=dict)

    @property
    def killers(self) -> dict[str, tuple[str, ...]]:
        """The known killers of each mutant."""
        return {mutant: row.killers for mutant, row in self.rows.items()}


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file of a record."""

    mutants: dict[str, Row]
    victims: dict[str, str]


def read_kills(path: Path) -> Kills:
    """Read a record; one that is not there is empty.

    Raises
    ------
    msgspec.DecodeError
        The file has another format.
    OSError
        It cannot be read.
    """
    if not path.exists():
        return Kills()
    document = msgspec.json.decode(path.read_bytes(), type=_Document)
    return Kills(document.mutants, document.victims)


def write_kills(kills: Kills, path: Path) -> None:
    """Write a record, a line an entry."""
    rows = {
        mutant: {"seeds": row.seeds, "examples": list(row.examples), "killers": list(row.killers)}
        for mutant, row in kills.rows.items()
    }
    path.write_text(f'{{"mutants": {_lines(rows)},\n"victims": {_lines(kills.victims)}}}\n', encoding="utf-8")


def updated(kills: Kills, found: Mapping[str, BySeed], mutants: Iterable[str], properties: Iterable[Property]) -> Kills:
    """Return the record with fresh rows for the mutants that were run.

    Parameters
    ----------
    kills : Kills
        What is known; its killers are kept after those that were found.
    found : dict
        The kills of each mutant that was run, one tuple a seed.
    mutants, properties : iterable
        Everything that there is, in order; rows, killers and victims that are not among them are dropped. Killers that
        run a whole engine come last.
    """
    is_slow = {one.name: one.is_slow for one in properties}
    rows = {}
    for mutant in mutants:
        before = kills.rows.get(mutant)
        if mutant in found:
            examples = tuple(first_example(kills) for kills in found[mutant])
            killers = [*_surest_first(found[mutant]), *(before.killers if before else ())]
            names = [name for name in dict.fromkeys(killers) if name in is_slow]
            names.sort(key=is_slow.__getitem__)
            rows[mutant] = Row(sum(one is not None for one in examples), examples, _few(names))
        elif before is not None:
            rows[mutant] = replace(before, killers=tuple(name for name in before.killers if name in is_slow))
    surest = {**kills.victims, **_surest_victims(found)}
    return Kills(rows, {name: surest[name] for name in is_slow if surest.get(name) in rows})


def median_example(examples: Iterable[int | None]) -> float:
    """Return the median of first examples, of which None is later than all others."""
    return median(inf if one is None else one for one in examples)


def _surest_first(by_seed: BySeed) -> list[str]:
    """Return properties: those that kill with most seeds before others, then those that need fewest examples."""
    examples: dict[str, list[int]] = {}
    for kills in by_seed:
        for kill in kills:
            examples.setdefault(kill.property, []).append(kill.example)
    return sorted(examples, key=lambda name: (-len(examples[name]), mean(examples[name])))


def _surest_victims(found: Mapping[str, BySeed]) -> dict[str, str]:
    """Return for each property the mutant that it killed with most seeds, of several with the first seed."""
    numbers: dict[str, dict[str, list[int]]] = {}
    for mutant, rows in found.items():
        for number, kills in enumerate(rows):
            for kill in kills:
                numbers.setdefault(kill.property, {}).setdefault(mutant, []).append(number)
    return {name: min(victims, key=lambda one: (-len(victims[one]), victims[one])) for name, victims in numbers.items()}


def _few(names: list[str]) -> tuple[str, ...]:
    laws = [name for name in names if is_law(name)][:MOST_KILLERS]
    others = [name for name in names if not is_law(name)][:MOST_KILLERS]
    return tuple(name for name in names if name in laws or name in others)


def _lines(entries: Mapping[str, Any]) -> str:
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items()) + "\n}"
