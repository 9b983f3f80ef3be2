"""Exact laws of draws that share their noise: of one draft and two tokens, by the keys of planted faults."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

from specsim.conformance.backend import load
from specsim.properties.distribution import Distribution, Row
from specsim.properties.host.noise.keyed_walks import Keys, expected_law, law_of_keys, rejection_sampling
from specsim.properties.host.noise.races import total_variation
from specsim.properties.host.noise.strategy import KeyedScene
from specsim.properties.mutants import all_mutants
from specsim.properties.suite.live.figures import Table, headline, html_table, law_in_words

FRESH, RECOVERY, BONUS, COIN = "", "OWN-4230", "OWN-4231", "OWN-4234"
"""No fault, and those in the keys of draws."""

ROWS = (
    ((2, 12, 6), (12, 4, 4)),
    ((2, 12, 6), (10, 5, 5)),
    ((2, 12, 6), (10, 6, 4)),
    ((2, 12, 6), (8, 8, 4)),
    ((10, 6, 4), (4, 4, 12)),
    ((10, 6, 4), (12, 6, 2)),
    ((2, 4, 6, 8), (14, 2, 2, 2)),
)
"""Pairs of the target's row and the draft's, in parts of their sum."""


@cache
def keys_of(fault: str) -> Callable[..., Any]:
    """Return the keys of the reference, or with a planted fault."""
    reference = load("specsim.reference")
    mutants = {mutant.id: mutant for mutant in all_mutants()}
    backend = mutants[fault].plant(reference) if fault else reference
    return backend.host("stream_key")


def row_of(parts: tuple[int, ...]) -> Row:
    """Return a row by parts of its sum."""
    return tuple(Fraction(part, sum(parts)) for part in parts)


def scene_of(fault: str, target: Row, proposal: Row) -> KeyedScene:
    """Return a request of two tokens and one draft an iteration, whose rows are the same after any token."""
    prefixes = [(), *((token,) for token in range(len(target)))]
    rows = dict.fromkeys(prefixes, target), dict.fromkeys(prefixes, proposal)
    return KeyedScene(*rows, num_drafts=1, horizon=2, by_coin=fault == COIN)


def first_token(law: Distribution) -> Distribution:
    """Return the law of the first token."""
    tokens = sorted({output[:1] for output in law})
    return {one: sum((share for output, share in law.items() if output[:1] == one), Fraction(0)) for one in tokens}


def _entry(fault: str, target: Row, proposal: Row) -> Table:
    scene = scene_of(fault, target, proposal)
    law, expected = law_of_keys(rejection_sampling, (scene,), Keys(keys_of(fault))), expected_law((scene,))
    return {
        "law": law_in_words(law),
        "first": law_in_words(first_token(law)),
        "biasOfFirst": headline(total_variation(first_token(law), first_token(expected))),
        "bias": headline(total_variation(law, expected)),
    }


def table() -> Table:
    """Return the laws of two tokens for every pair of rows and every way to share noise."""
    entries = [
        {
            "target": target,
            "proposal": proposal,
            "sharing": {one: _entry(one, row_of(target), row_of(proposal)) for one in (FRESH, RECOVERY, BONUS, COIN)},
        }
        for target, proposal in ROWS
    ]
    summaries = {mutant.id: mutant.summary for mutant in all_mutants()}
    return {"entries": entries, "sharing": {one: summaries.get(one, "") for one in (FRESH, RECOVERY, BONUS, COIN)}}


def html(entries: Table) -> str:
    """Return what comes out first where a rejection draws on the noise of its draft."""
    rows = []
    for entry in entries["entries"]:
        target, proposal = (", ".join(map(str, row_of(entry[side]))) for side in ("target", "proposal"))
        emitted = entry["sharing"][RECOVERY]
        bias = emitted["biasOfFirst"]["exact"]
        rows.append([f"p = ({target}), q = ({proposal})", ", ".join(emitted["first"].values()), bias])
    header = ["rows", "first token", "total variation"]
    return html_table("A rejection that draws on the noise of its draft", header, rows)
