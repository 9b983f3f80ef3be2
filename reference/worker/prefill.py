"""The prefill: chunks of prompts through the target."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.host.choice import any_rules
from specsim.reference.worker.choices import ChoiceRows
from specsim.reference.worker.constraints import constrain_first
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.rules import follow_output
from specsim.reference.worker.sampling import first_tokens, greedy_choices
from specsim.simulation.models.batches import PagedKeys, TargetBatch, TargetOutput
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import Model
from specsim.simulation.models.reported_states import layers_to_ask, part_states
from specsim.simulation.requests import PromptChunk


@dataclass(frozen=True)
class TargetPrefill:
    """Chunks after the target, and what a draft needs to follow them.

    ``rows``, ``chunks``, ``row``, ``ends``, ``lengths`` and ``following`` [request]; ``input_ids``, ``positions`` and
    ``out_cache_loc`` [token]. ``following`` is the token after each chunk, ``last`` the place of its own last token.
    """

    rows: Sequence[int]
    chunks: Sequence[PromptChunk]
    row: Array
    ends: Array
    lengths: Array
    input_ids: Array
    positions: Array
    out_cache_loc: Array
    keys: PagedKeys[Array]
    last: Array
    following: Array
    output: TargetOutput[Array]

    @property
    def starts(self) -> Array:
        """Where each chunk starts, int64 [request]."""
        starts: Array = (self.ends - self.lengths).astype(np.int64)
        return starts


def prefill_target(
    rows: Sequence[int],
    chunks: Sequence[PromptChunk],
    model: Model[Array],
    pools: Pools,
    choices: ChoiceRows,
    operations: CallsByName,
) -> TargetPrefill:
    """Run chunks of prompts; the token after a chunk is the root of the first draft that may follow it.

    After a chunk that ends its prompt that is the first output token, after any other the prompt's next token.

    Parameters
    ----------
    rows, chunks : sequence
        Request row and chunk of each request; slots are assigned up to its end, and hold KV up to its start.

    Notes
    -----
    Source: semantics D.7, I.8.
    """
    row = np.array(rows, dtype=np.int64)
    starts = np.array([chunk.start for chunk in chunks], dtype=np.int32)
    ends = np.array([chunk.end for chunk in chunks], dtype=np.int32)
    lengths = ends - starts
    cu_lengths = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    input_ids = np.array([token for chunk in chunks for token in chunk.tokens], dtype=np.int64)
    positions = np.concatenate([np.arange(chunk.start, chunk.end, dtype=np.int64) for chunk in chunks])
    out_cache_loc = operations.assign_extend_cache_locs(row, pools.req_to_token, starts, ends, len(input_ids))
    keys = PagedKeys(pools.req_to_token[row, : ends.max()], ends, cu_lengths, 1)
    last = cu_lengths[1:].astype(np.int64) - 1
    pools.reset_states(row[starts == 0])
    hands_states = choices.hands_states(row)
    output = model.prefill(
        TargetBatch(
            req_pool_indices=row,
            input_ids=input_ids,
            positions=positions,
            out_cache_loc=out_cache_loc,
            prefix_lens=starts.astype(np.int64),
            keys=keys,
            tree_mask=None,
            parents=None,
            select=last,
            hidden_layers=layers_to_ask(model.description, hands_states),
            is_sampled=choices.needs_distribution(row),
            window_keys=pools.window_keys(keys.page_table, out_cache_loc),
        ),
        pools.open(Side.TARGET, out_cache_loc),
        pools.states,
    )
    output = part_states(model.description, output, hands_states, last)
    asked, is_last = choices.of(row), np.array([chunk.next_token is None for chunk in chunks])
    output = constrain_first(output, asked, operations)
    if any_rules(asked):
        vocab_size, alone = output.logits.shape[1], (np.zeros(len(row), np.int64), np.ones(len(row), np.bool_))
        choices.outputs.start(row, asked, vocab_size)
        output = follow_output(output, *alone, choices.outputs.of(row, vocab_size), asked, operations)
    chosen = greedy_choices(output, operations)
    first = first_tokens(row, ends, output, chosen, choices, operations)
    paths = np.where(is_last, np.arange(len(row)), -1).astype(np.int32)[:, None]
    choices.outputs.commit(row, asked, paths, first.astype(np.int32), operations)
    following = np.where(is_last, first, [chunk.next_token or 0 for chunk in chunks])
    return TargetPrefill(
        rows, chunks, row, ends, lengths, input_ids, positions, out_cache_loc, keys, last, following, output
    )
