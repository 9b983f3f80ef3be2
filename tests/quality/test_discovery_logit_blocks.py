"""What the strategy of blocks from logits must find."""

from collections.abc import Callable
from itertools import takewhile
from typing import Any

import numpy as np
import pytest

from specsim.reference.walks import Block, block_of_logits, logit_chain
from tests.quality.pool import calls_of

Case = dict[str, Any]


def blocks(case: Case) -> list[tuple[Block, int, Any]]:
    """Return the block of every sampled request, how many of its drafts are kept, and its coins."""
    found = []
    for request in np.flatnonzero(case["temperature"]).tolist():
        chain = logit_chain(case, request)
        if list(takewhile(lambda token: token >= 0, chain.drafts)):
            block = block_of_logits(chain)
            found.append((block, block.kept_by(chain.coins), chain.coins.each))
    return found


BLOCKS: dict[str, Callable[[Case], Any]] = {
    "an inner front that is kept with a share between 0 and 1": lambda case: any(
        0 < kept < len(block.tokens) and 0 < block.shares[kept] < 1 for block, kept, _ in blocks(case)
    ),
    "a front that leaves other tokens the smaller its share is": lambda case: any(
        0 < kept < len(block.tokens)
        and ((np.maximum(block.target[kept] - block.proposal[kept], 0) > 0) & ~(block.rest_after(kept) > 0)).any()
        for block, kept, _ in blocks(case)
    ),
    "a coin that fails before a front that is kept": lambda case: any(
        any(coins[place] >= block.chance_of(place + 1) for place in range(kept - 1))
        for block, kept, coins in blocks(case)
    ),
    "a block that is kept whole": lambda case: any(kept == len(block.tokens) > 2 for block, kept, _ in blocks(case)),
    "a greedy request beside a sampled one": lambda case: len(set((case["temperature"] == 0).tolist())) == 2,
    "certain drafts beside drawn ones": lambda case: (
        case["draft_logits"] is not None
        and len(set((case["draft_temperature"][case["temperature"] > 0] == 0).tolist())) == 2
    ),
    "a sentinel among drafts": lambda case: any(0 < len(block.tokens) < len(coins) for block, _, coins in blocks(case)),
    "filters": lambda case: case["top_k"] is not None and (case["top_k"] < case["target_logits"].shape[1]).any(),
    "rows of NaN that are not read": lambda case: np.isnan(case["target_logits"].astype(np.float32)).any(),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_from_logits_contain(name: str) -> None:
    assert calls_of("chain_block_verification_from_logits").first(BLOCKS[name])
