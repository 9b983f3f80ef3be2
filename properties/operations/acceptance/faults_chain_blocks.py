"""Faults in the sampler of chains that are judged as a block."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from specsim.properties.mutants.record import Mutant, Named, given, instead, with_arguments

Array = Any


@dataclass(frozen=True)
class Faults:
    """A sampler of blocks by the book, but for the faults that are switched on."""

    first_failure_ends: bool = False
    first_success_ends: bool = False
    equality_keeps: bool = False
    share_not_cut: bool = False
    ratios_cut_alone: bool = False
    ratios_from_the_end: bool = False
    impossible_keeps_the_share: bool = False
    share_of_the_batch: bool = False
    share_in_half_precision: bool = False
    share_of_the_next_front: bool = False
    last_front_like_inner: bool = False
    masses_of_own_row: bool = False
    mass_is_the_chance: bool = False
    rest_without_share: bool = False
    rest_after_all: bool = False
    bonus_of_the_last_draft: bool = False
    final_coin_of_the_front: bool = False
    rows_of_drafts: bool = False
    sentinel_is_an_index: bool = False
    shares_one_by_one: bool = False
    nothing_left_draws_from_the_target: bool = False
    logarithm_in_half_precision: bool = False


def verified(faults: Faults) -> Callable[..., tuple[Array, Array]]:
    """Return a verifier of blocks that has the faults."""

    def call(**arguments: Any) -> tuple[Array, Array]:
        offsets, most = arguments["cu_num_drafts"].tolist(), arguments["max_num_drafts"]
        output = np.full((len(offsets) - 1, most + 1), -1, dtype=np.int32)
        share = 1.0
        for request in range(len(offsets) - 1):
            first, last = offsets[request : request + 2]
            row = first if faults.rows_of_drafts else first + request
            block = _Block(arguments, (first, last), row, share if faults.share_of_the_batch else 1.0, faults)
            tokens, share = block.output(float(arguments["uniform_samples_for_final_sampling"][request]))
            output[request, : len(tokens)] = tokens
        return output, (output >= 0).sum(axis=1).astype(np.int32) - 1

    return call


class _Block:
    """The drafts of one request, with their rows and coins."""

    def __init__(self, arguments: Named, bounds: tuple[int, int], row: int, share: float, faults: Faults) -> None:
        first, last = bounds
        drafts = arguments["draft_tokens"][first:last].tolist()
        is_ended = -1 in drafts and not faults.sentinel_is_an_index
        self.tokens = drafts[: drafts.index(-1)] if is_ended else drafts
        self.target = arguments["target_probs"][row:].astype(np.float64)
        laws = arguments["draft_probs"]
        certain = np.eye(self.target.shape[1])
        self.proposal = certain[self.tokens] if laws is None else laws[first:last].astype(np.float64)
        self.coins = arguments["uniform_samples"][first:last].astype(np.float64)
        self.faults = faults
        self.shares = self._shares(share)

    def _shares(self, share: float) -> list[float]:
        places, found = range(len(self.tokens)), [share]
        for place in reversed(places) if self.faults.ratios_from_the_end else places:
            p, q = (float(rows[place][self.tokens[place]]) for rows in (self.target, self.proposal))
            ratio = p / q if q > 0 else float(self.faults.impossible_keeps_the_share)
            if self.faults.ratios_cut_alone:
                ratio = min(ratio, 1.0)
            share = found[-1] * ratio
            if self.faults.shares_one_by_one:
                share = ratio
            if not self.faults.share_not_cut:
                share = min(share, 1.0)
            if self.faults.logarithm_in_half_precision and share > 0:
                share = float(np.exp(np.float64(bfloat16(np.log(share)))))
            found.append(float(np.float16(share)) if self.faults.share_in_half_precision else share)
        return found

    def _rest(self, count: int, share: float) -> Array:
        if count == len(self.tokens) and not self.faults.rest_after_all:
            return self.target[max(count - 1, 0) if self.faults.bonus_of_the_last_draft else count]
        spent = self.proposal[min(count, len(self.tokens) - 1)] if self.tokens else 0.0
        return np.maximum(share * self.target[count] - spent, 0.0)

    def _chance(self, count: int) -> float:
        share = self.shares[count]
        is_last = count == len(self.tokens)
        if (is_last and not self.faults.last_front_like_inner) or share == 0:
            return share
        row = count - 1 if self.faults.masses_of_own_row else count
        mass = float(np.maximum(share * self.target[row] - self.proposal[min(row, len(self.tokens) - 1)], 0.0).sum())
        if self.faults.mass_is_the_chance:
            return mass if share < 1 else 1.0
        return mass / (mass + 1 - share) if mass + 1 - share > 0 else 1.0

    def output(self, final: float) -> tuple[list[int], float]:
        """Return the output tokens, and the share of the kept drafts."""
        kept = 0
        for count, coin in enumerate(self.coins[: len(self.tokens)].tolist(), 1):
            chance = self._chance(count)
            if coin < chance or (self.faults.equality_keeps and coin == chance):
                kept = count
                if self.faults.first_success_ends:
                    break
            elif self.faults.first_failure_ends:
                break
        share = self.shares[min(kept + self.faults.share_of_the_next_front, len(self.tokens))]
        rest = self._rest(kept, 1.0 if self.faults.rest_without_share else share)
        if self.faults.nothing_left_draws_from_the_target and not rest.any():
            rest = self.target[kept]
        coin = float(self.coins[kept - 1]) if self.faults.final_coin_of_the_front and kept else final
        return [*self.tokens[:kept], _drawn(rest, coin)], share


def _drawn(rest: Array, coin: float) -> int:
    prefix = np.cumsum(rest)
    beyond = np.flatnonzero(prefix > coin * prefix[-1])
    return int(beyond[0]) if len(beyond) else len(rest) - 1


def _coins_of_the_next_draft(arguments: Named) -> None:
    arguments["uniform_samples"] = np.roll(arguments["uniform_samples"], -1)


def _every_row_has_mass(arguments: Named) -> None:
    if not (arguments["target_probs"].sum(axis=1) > 0).all():
        raise ValueError("a row has no mass")


_BLOCK = "chain_block_verification"


def _fault(number: str, summary: str, **switched_on: bool) -> Mutant:
    return Mutant(number, _BLOCK, summary, instead(verified(Faults(**switched_on))))


MUTANTS = (
    _fault("OWN-4300", "The first coin that fails ends the walk.", first_failure_ends=True),
    _fault("OWN-4301", "The first coin that keeps a front ends the walk.", first_success_ends=True),
    _fault("OWN-4302", "A coin at the chance keeps the front, at 0 too.", equality_keeps=True),
    _fault("OWN-4303", "The share of a front is not cut at 1.", share_not_cut=True),
    _fault("OWN-4304", "Ratios are cut at 1, and not their product.", ratios_cut_alone=True),
    _fault("OWN-4305", "Ratios are multiplied from the last draft on.", ratios_from_the_end=True),
    _fault("OWN-4306", "A draft that its own law cannot draw keeps the share.", impossible_keeps_the_share=True),
    _fault("OWN-4307", "The share goes on from one request to the next.", share_of_the_batch=True),
    _fault("OWN-4308", "Shares are kept in half precision.", share_in_half_precision=True),
    _fault("OWN-4309", "A front's share is its last ratio alone.", shares_one_by_one=True),
    _fault("OWN-4310", "The last front is judged like others, by the last draft's law.", last_front_like_inner=True),
    _fault("OWN-4311", "What a front leaves is added up of its own row, not the next.", masses_of_own_row=True),
    _fault("OWN-4312", "What a front leaves is its chance.", mass_is_the_chance=True),
    _fault("OWN-4313", "The last token is drawn from max(p - q, 0) without the share.", rest_without_share=True),
    _fault("OWN-4314", "The last token is drawn with the share of the next front.", share_of_the_next_front=True),
    _fault("OWN-4315", "After all drafts the last law is taken away once more.", rest_after_all=True),
    _fault("OWN-4316", "The token after all drafts comes from the row of the last one.", bonus_of_the_last_draft=True),
    _fault("OWN-4317", "The coin that kept a front also draws.", final_coin_of_the_front=True),
    _fault("OWN-4318", "Target rows are counted like drafts.", rows_of_drafts=True),
    _fault("OWN-4319", "A sentinel is used as a token.", sentinel_is_an_index=True),
    Mutant("OWN-4320", _BLOCK, "Each coin is that of the next draft.", given(_coins_of_the_next_draft)),
    Mutant("OWN-4321", _BLOCK, "Drafts count as certain.", with_arguments(draft_probs=None)),
    Mutant("OWN-4322", _BLOCK, "Rows that no block reads must have mass as well.", given(_every_row_has_mass)),
)
