"""Faults in the sampler of chains that are judged as a block."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, edits_of, given, mutants_by_operation, with_arguments
from specsim.properties.operations.acceptance.faults_chains import every_row_has_mass
from specsim.reference.walks import Block, Coins, draw, walk_block


def left_by(share: str, within: Function = walk_block) -> Callable[[Function], Function]:
    """Inject a fault that draws the token after rejected drafts from what another share leaves."""
    left = f"np.maximum({share} * block.target[kept] - block.proposal[kept], 0.0)"
    return edited(
        "block.rest_after(kept)", f"{left} if kept < len(block.tokens) else block.target[kept]", within=within
    )


def with_share(block: Block, share: float) -> Block:
    """Return a block whose shares are multiplied on from another one than that of no draft."""
    shares = [share]
    for token, wanted, offered in zip(block.tokens, block.target, block.proposal, strict=False):
        p, q = float(wanted[token]), float(offered[token])
        shares.append(min(shares[-1] * p / q, 1.0) if q > 0 else 0.0)
    return replace(block, shares=shares)


def _share_goes_on() -> Callable[..., list[int]]:
    share = 1.0

    def walk(drafts: list[int], coins: Coins, draft_probs: Any, target_probs: Any) -> list[int]:
        nonlocal share
        block = with_share(Block.of(drafts, draft_probs, target_probs), share)
        kept = block.kept_by(coins)
        share = block.shares[kept]
        return [*block.tokens[:kept], draw(block.rest_after(kept), coins.final)]

    return walk


DIFFS = """
    @@ chain_block_verification
    OWN-4307 The share goes on from one request to the next.
    - walk_block => share_goes_on()
    @@ chain_block_verification in walks.Block
    OWN-4300 The first coin that fails ends the walk.
    - kept = len(self.tokens)
    + fails = [float(coin) >= self.chance_of(count) for count, coin in enumerate(coins.each[: len(self.tokens)], 1)]
    + kept = [*fails, True].index(True)
    OWN-4301 The first coin that keeps a front ends the walk.
    - kept = len(self.tokens)
    + keeps = [float(coin) < self.chance_of(count) for count, coin in enumerate(coins.each[: len(self.tokens)], 1)]
    + kept = next((count for count, is_kept in enumerate(keeps, 1) if is_kept), 0)
    OWN-4302 A coin at the chance keeps the front, at 0 too.
    - decide.is_below(float(coins.each[kept - 1]), self.chance_of(kept))
    + float(coins.each[kept - 1]) <= self.chance_of(kept)
    OWN-4303 The share of a front is not cut at 1.
    - min(shares[-1] * p / q, 1.0) => shares[-1] * p / q
    - rest / (rest + 1 - share) => rest / (rest + 1 - share) if rest + 1 > share else 1.0
    OWN-4304 Ratios are cut at 1, and not their product.
    - min(shares[-1] * p / q, 1.0) => shares[-1] * min(p / q, 1.0)
    OWN-4305 Ratios are multiplied from the last draft on.
    - zip(tokens, target, proposal, strict=False) => [*zip(tokens, target, proposal)][::-1]
    OWN-4306 A draft that its own law cannot draw keeps the share.
    - min(shares[-1] * p / q, 1.0) if q > 0 else 0.0 => min(shares[-1] * p / q, 1.0) if q > 0 else shares[-1]
    OWN-4308 Shares are kept in half precision.
    - min(shares[-1] * p / q, 1.0) => float(np.float16(min(shares[-1] * p / q, 1.0)))
    OWN-4309 A front's share is its last ratio alone.
    - min(shares[-1] * p / q, 1.0) => min(p / q, 1.0)
    OWN-4310 The last front is judged like others, by the last draft's law.
    - kept == len(self.tokens) or share in (0.0, 1.0) => share in (0.0, 1.0)
    - float(self.rest_after(kept).sum())
    + float(np.maximum(share * self.target[kept] - [*self.proposal, *self.proposal[-1:]][kept], 0.0).sum())
    OWN-4311 What a front leaves is added up of its own row, not the next.
    - float(self.rest_after(kept).sum())
    + float(np.maximum(share * self.target[kept - 1] - self.proposal[kept - 1], 0.0).sum())
    OWN-4312 What a front leaves is its chance.
    - rest / (rest + 1 - share) => rest
    OWN-4316 The token after all drafts comes from the row of the last one.
    - return self.target[kept] => return self.target[max(kept - 1, 0)]
    OWN-4319 A sentinel is used as a token.
    - takewhile(lambda token: token >= 0, drafts) => drafts
    @@ chain_block_verification in walk_block
    OWN-4315 After all drafts the last law is taken away once more.
    - block.rest_after(kept)
    + np.maximum(block.shares[kept] * block.target[kept] - [*block.proposal, *block.proposal[-1:], 0.0][kept], 0.0)
    OWN-4317 The coin that kept a front also draws.
    - coins.final => float(coins.each[kept - 1]) if kept else coins.final
    @@ chain_block_verification in _walk_chains
    OWN-4318 Target rows are counted like drafts.
    - arguments["target_probs"][first + request : last + request + 1] => arguments["target_probs"][first : last + 1]
"""

_next_coins = with_arguments(uniform_samples=lambda coins: np.roll(coins, -1))

MUTANTS = mutants_by_operation(
    edits_of(DIFFS, share_goes_on=_share_goes_on),
    chain_block_verification=(
        ("OWN-4313", "The last token is drawn from max(p - q, 0) without the share.", left_by("1.0")),
        ("OWN-4314", "The last token is drawn with the share of the next front.", left_by("block.shares[kept + 1]")),
        ("OWN-4320", "Each coin is that of the next draft.", _next_coins),
        ("OWN-4321", "Drafts count as certain.", with_arguments(draft_probs=None)),
        ("OWN-4322", "Rows that no block reads must have mass as well.", given(every_row_has_mass)),
    ),
)
