"""The verify phase: the target runs over the trees, and the longest path that it agrees with is accepted."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.counts import count_tokens
from specsim.host.choice import any_rules
from specsim.phases import PhaseTag, VerifyInput, VerifyOutput, expect_phase
from specsim.reference.worker.choices import ChoiceRows
from specsim.reference.worker.constraints import constrain
from specsim.reference.worker.pools import Buffers, Pools
from specsim.reference.worker.rules import follow_output
from specsim.reference.worker.sampling import accept, greedy_choices
from specsim.reference.worker.scheduled import Admitted, cap, compact_batch, scatter_output
from specsim.simulation.models.batches import TargetBatch, TargetOutput
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import Model
from specsim.simulation.models.reported_states import layers_to_ask, part_states
from specsim.simulation.verification import Verified


def verify(
    row: Array,
    phase: VerifyInput,
    num_steps: int,
    model: Model[Array],
    pools: Pools,
    choices: ChoiceRows,
    operations: CallsByName,
    admitted: Admitted | None = None,
) -> tuple[VerifyOutput, Buffers, TargetOutput[Array], Verified | None]:
    """Run the target over every tree and accept: greedily, or by chance where a request is sampled.

    Parameters
    ----------
    row : int64 [request]
        Row of each request.
    phase : VerifyInput
        The trees, and the slots that they are written to.
    num_steps : int
        Depth of a tree: the most drafts that are accepted.
    choices : ChoiceRows
        How the tokens of the requests are chosen.
    admitted : Admitted or None
        Which drafts are verified, None for all of them.

    Returns
    -------
    verify_output : VerifyOutput
        The accepted paths.
    scratch : mapping
        The recurrent state after every node, by component and layer.
    output : TargetOutput
        The logits that the tokens were chosen from, and what users are handed of hidden states.
    verified : Verified or None
        What was admitted, and what the cut lost.

    Notes
    -----
    Source: semantics B.3, B.4, B.5, B.6, B.8, C.3, C.9, Q.1.
    """
    expect_phase(phase, PhaseTag.EAGLE_VERIFY, PhaseTag.FROZEN_KV_MTP_VERIFY, PhaseTag.DFLASH_VERIFY)
    scratch = pools.scratch(len(row), phase.num_draft_tokens)
    batch = _batch_of(row, phase, model, pools, choices, operations)
    if admitted is not None and admitted.is_compact:
        batch = compact_batch(batch, phase, admitted, pools, operations)
    output = model.verify(batch, pools.open(Side.TARGET, batch.out_cache_loc), pools.states, scratch)
    if admitted is not None and admitted.is_compact:
        output = scatter_output(output, phase, admitted, operations)
    output = part_states(model.description, output, choices.hands_states(row))
    shape = phase.retrieve_index.shape
    output = constrain(
        output,
        phase.draft_token.reshape(shape),
        phase.retrieve_next_token,
        phase.retrieve_next_sibling,
        choices.of(row),
        operations,
    )
    asked = choices.of(row)
    if any_rules(asked):
        known = choices.outputs.of(row, output.logits.shape[1])
        output = follow_output(output, phase.draft_token, phase.tree_mask, known, asked, operations)
    target_predict = greedy_choices(output, operations)
    accepted, verified = accept(row, phase, output, target_predict, num_steps, choices, operations), None
    if admitted is not None:
        accepted, verified = cap(accepted, phase, admitted, operations)
    choices.outputs.commit(row, asked, accepted.accept_index, accepted.predict, operations)
    num_accepted_tokens = count_tokens(accepted.num_accepted_drafts)
    accept_tokens = operations.gather_accept_tokens(accepted.predict, accepted.accept_index)
    verify_output = VerifyOutput(
        target_predict=target_predict,
        predict=accepted.predict,
        accept_index=accepted.accept_index,
        num_accepted_drafts=accepted.num_accepted_drafts,
        num_accepted_tokens=num_accepted_tokens,
        bonus_tokens=operations.fill_bonus_tokens(accept_tokens, num_accepted_tokens),
        hidden_states=output.hidden_states,
    )
    return verify_output, scratch, output, verified


def _batch_of(
    row: Array,
    phase: VerifyInput,
    model: Model[Array],
    pools: Pools,
    choices: ChoiceRows,
    operations: CallsByName,
) -> TargetBatch[Array]:
    """Return the target's forward over all nodes."""
    keys = pools.keys_of_nodes(row, phase.seq_lens, phase.num_draft_tokens, operations)
    return TargetBatch(
        req_pool_indices=row,
        input_ids=phase.draft_token,
        positions=phase.positions,
        out_cache_loc=phase.out_cache_loc,
        prefix_lens=phase.seq_lens,
        keys=keys,
        tree_mask=phase.tree_mask,
        parents=parents_of(phase) if pools.states else None,
        select=None,
        hidden_layers=layers_to_ask(model.description, choices.hands_states(row)),
        is_sampled=choices.needs_distribution(row),
        window_keys=pools.window_keys(keys.page_table, phase.out_cache_loc),
    )


def parents_of(phase: VerifyInput) -> Array:
    """Return int64 [request, node]: the last ancestor of each node, -1 for the root; parents come before children."""
    num_nodes = phase.num_draft_tokens
    is_ancestor = np.tril(phase.tree_mask.reshape(-1, num_nodes, num_nodes), -1)
    parents: Array = (is_ancestor * np.arange(1, num_nodes + 1)).max(axis=2, initial=0) - 1
    return parents
