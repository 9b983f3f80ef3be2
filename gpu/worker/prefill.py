"""The prefill on the device: chunks of prompts through the target."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from specsim import gpu
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker import arrays
from specsim.gpu.worker.choices import Asked, ChoiceRows
from specsim.gpu.worker.constraints import constrain_first
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.rules import writable
from specsim.gpu.worker.sampling import first_tokens, greedy_choices
from specsim.host.choice import any_rules
from specsim.simulation.models.batches import PagedKeys, TargetBatch, TargetOutput
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import Model
from specsim.simulation.models.reported_states import layers_to_ask, part_states
from specsim.simulation.requests import PromptChunk
from specsim.topology import NONE


@dataclass(frozen=True)
class TargetPrefill:
    """Chunks after the target, and what a draft needs to follow them.

    The host knows ``rows`` and ``chunks``, the row of each request and its chunk, and what they ask. On the device are
    ``row``, ``ends``, ``lengths`` and ``following`` [request], and ``input_ids``, ``positions`` and ``out_cache_loc``
    [token]. ``following`` is the token after each chunk, ``last`` the place of its own last token.
    """

    rows: Sequence[int]
    chunks: Sequence[PromptChunk]
    asked: Asked
    row: Tensor
    ends: Tensor
    lengths: Tensor
    input_ids: Tensor
    positions: Tensor
    out_cache_loc: Tensor
    keys: PagedKeys[Tensor]
    last: Tensor
    following: Tensor
    output: TargetOutput[Tensor]

    @cached_property
    def tokens(self) -> list[int]:
        """The token after each chunk on the host, which waits for the device once."""
        tokens: list[int] = self.following.tolist()
        return tokens


def prefill_target(
    rows: Sequence[int], chunks: Sequence[PromptChunk], model: Model[Tensor], pools: Pools, choices: ChoiceRows
) -> TargetPrefill:
    """Run chunks of prompts; the token after a chunk is the root of the first draft that may follow it.

    After a chunk that ends its prompt that is the first output token, after any other the prompt's next token
    (semantics D.7, I.8).
    """
    starts = np.array([chunk.start for chunk in chunks], dtype=np.int64)
    ends = np.array([chunk.end for chunk in chunks], dtype=np.int64)
    cu_lengths = np.concatenate([[0], np.cumsum(ends - starts)])
    row, start, end = (arrays.asarray(values) for values in (rows, starts, ends))
    input_ids = arrays.asarray([token for chunk in chunks for token in chunk.tokens])
    positions = torch.cat([torch.arange(chunk.start, chunk.end, device=DEVICE) for chunk in chunks])
    out_cache_loc = gpu.assign_extend_cache_locs(row, pools.req_to_token, start, end, int(cu_lengths[-1]))
    page_table = pools.req_to_token.index_select(0, row)[:, : int(ends.max())]
    keys = PagedKeys(page_table, end.int(), arrays.asarray(cu_lengths, "int32"), 1)
    last = arrays.asarray(cu_lengths[1:] - 1)
    asked = choices.asked(rows)
    pools.reset_states(arrays.asarray(np.asarray(rows)[starts == 0]))
    target_batch = TargetBatch(
        req_pool_indices=row,
        input_ids=input_ids,
        positions=positions,
        out_cache_loc=out_cache_loc,
        prefix_lens=start,
        keys=keys,
        tree_mask=None,
        parents=None,
        select=last,
        hidden_layers=layers_to_ask(model.description, asked.hands_states),
        is_sampled=asked.is_sampled,
        window_keys=pools.window_keys(page_table, out_cache_loc),
    )
    output = model.prefill(target_batch, pools.kv[Side.TARGET], pools.states)
    output = part_states(model.description, output, asked.hands_states, last)
    if asked.is_constrained:
        constrain_first(output, asked.choices)
    own = [chunk.next_token for chunk in chunks]
    choices.rules.start(rows, asked.choices, output.logits.shape[1])
    has_rules = any_rules(asked.choices)
    if has_rules:
        output = writable(output)
        choices.rules.apply(row, torch.zeros_like(row), torch.ones_like(row, dtype=torch.bool), output)
    following = greedy_choices(output)
    if asked.is_sampled:
        following = first_tokens(end, output, following, choices.gather(row), choices.acceptance)
    if has_rules:
        paths = [place if token is None else NONE for place, token in enumerate(own)]
        choices.rules.commit(row, arrays.asarray(paths, "int32")[:, None], following.int())
    if any(token is not None for token in own):
        is_last = arrays.asarray([token is None for token in own], "bool")
        following = torch.where(is_last, following, arrays.asarray([token or 0 for token in own]))
    lengths = (end - start).int()
    return TargetPrefill(
        rows, chunks, asked, row, end, lengths, input_ids, positions, out_cache_loc, keys, last, following, output
    )
