"""Faults in the sampler of ragged chains."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Mutant, Named, given, instead, with_arguments

Array = Any
Z = 0.75
"""Mass that a filter kept of the draft's law."""


@dataclass(frozen=True)
class Faults:
    """A chain sampler by the book, but for the faults that are switched on."""

    residual_of_one_entry: bool = False
    always_accepts: bool = False
    sentinel_is_an_index: bool = False
    final_coin_of_the_draft: bool = False
    first_start_unguarded: bool = False
    exact_match_only: bool = False
    short_drafts_certain: bool = False
    equality_accepts: bool = False
    residual_after_all: bool = False
    residual_of_the_target: bool = False
    rows_of_drafts: bool = False
    empty_requests_skipped: bool = False
    final_coin_tests: bool = False
    nothing_is_drawn_of_nothing: bool = False


def _sampled(faults: Faults) -> Callable[..., tuple[Array, Array]]:
    def call(**arguments: Any) -> tuple[Array, Array]:
        offsets, most = arguments["cu_num_drafts"].tolist(), arguments["max_num_drafts"]
        output = np.full((len(offsets) - 1, most + 1), -1, dtype=np.int32)
        counts = np.zeros(len(offsets) - 1, dtype=np.int32)
        served = 0
        for request in range(len(offsets) - 1):
            first, last = offsets[request : request + 2]
            if faults.first_start_unguarded and request == 0:
                first = min(offsets[-1], last)
            final = served if faults.empty_requests_skipped else request
            served += last > first
            row = first if faults.rows_of_drafts else first + request
            tokens = _walk(arguments, (first, last), row, final, faults)
            output[request, : len(tokens)] = tokens
            counts[request] = len(tokens) - 1
        return output, counts

    return call


def _walk(arguments: Named, bounds: tuple[int, int], row: int, final: int, faults: Faults) -> list[int]:
    target = arguments["target_probs"].astype(np.float64)
    vocab, output = target.shape[1], list[int]()
    coin = float(arguments["uniform_samples_for_final_sampling"][final])
    is_short = bounds[1] - bounds[0] < arguments["max_num_drafts"]
    for place in range(*bounds):
        token, test = int(arguments["draft_tokens"][place]), float(arguments["uniform_samples"][place])
        test = coin if faults.final_coin_tests else test
        if token < 0 and not faults.sentinel_is_an_index:
            break
        wanted = target[row + len(output)]
        is_certain = arguments["draft_probs"] is None or (faults.short_drafts_certain and is_short)
        proposal = np.eye(vocab)[token] if is_certain else arguments["draft_probs"][place].astype(np.float64)
        accepted = test * proposal[token] < wanted[token] and proposal[token] > 0
        if faults.equality_accepts:
            accepted = test * proposal[token] <= wanted[token]
        if faults.exact_match_only:
            accepted = _drawn(wanted, test) == token
        if accepted or faults.always_accepts:
            output.append(token)
            continue
        rest = np.maximum(wanted - proposal, 0.0)
        if faults.residual_of_one_entry:
            rest = wanted.copy()
            rest[token] = max(wanted[token] - proposal[token], 0.0)
        if faults.residual_of_the_target:
            rest = wanted
        if faults.nothing_is_drawn_of_nothing and not rest.any():
            return [*output, -1]
        return [*output, _drawn(rest, test if faults.final_coin_of_the_draft else coin)]
    wanted = target[row + len(output)]
    if faults.residual_after_all and output:
        wanted = wanted * (np.arange(vocab) != output[-1])
    return [*output, _drawn(wanted, coin)]


def _drawn(rest: Array, coin: float) -> int:
    prefix = np.cumsum(rest)
    beyond = np.flatnonzero(prefix > coin * prefix[-1])
    return int(beyond[0]) if len(beyond) else len(rest) - 1


def _law_before_the_filters(arguments: Named) -> None:
    if arguments["draft_probs"] is not None:
        arguments["draft_probs"] = arguments["draft_probs"] * np.float32(Z)


_CHAIN = "chain_speculative_sampling"


def _fault(number: str, summary: str, **switched_on: bool) -> Mutant:
    return Mutant(number, _CHAIN, summary, instead(_sampled(Faults(**switched_on))))


def _every_row_has_mass(arguments: Named) -> None:
    if not (arguments["target_probs"].sum(axis=1) > 0).all():
        raise ValueError("a row has no mass")


MUTANTS = (
    Mutant("OWN-396", _CHAIN, "Rows that no one reads must have mass as well.", given(_every_row_has_mass)),
    _fault("D13", "Only drafts of the full length count as drawn.", short_drafts_certain=True),
    _fault("V05", "Of the draft's law only the rejected entry is taken away.", residual_of_one_entry=True),
    _fault("V06", "Every draft is accepted.", always_accepts=True),
    Mutant("V08", _CHAIN, "The draft's law is that before its filters.", given(_law_before_the_filters)),
    _fault("V10", "A sentinel is used as a token.", sentinel_is_an_index=True),
    _fault("V11", "The coin that rejected also draws.", final_coin_of_the_draft=True),
    Mutant("V13", _CHAIN, "The draft's law does not arrive.", with_arguments(draft_probs=None)),
    _fault("V21", "The first start is read before the offsets.", first_start_unguarded=True),
    _fault("V29", "A draft is accepted if a draw from the target matches.", exact_match_only=True),
    _fault("OWN-270", "A coin at the ratio accepts.", equality_accepts=True),
    _fault("OWN-271", "The token after a full chain is never its last draft.", residual_after_all=True),
    _fault("OWN-272", "A rejection draws from the target.", residual_of_the_target=True),
    _fault("OWN-273", "Target rows are counted like drafts.", rows_of_drafts=True),
    _fault("OWN-274", "Last coins are counted without empty requests.", empty_requests_skipped=True),
    _fault("OWN-286", "Where a rejection leaves nothing, no token is drawn.", nothing_is_drawn_of_nothing=True),
    _fault("OWN-276", "The final coin tests the drafts too.", final_coin_tests=True),
)
