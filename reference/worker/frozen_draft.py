"""The draft of FROZEN_KV_MTP: forwards over the target's KV that stand still, and what the first one starts from."""

from collections.abc import Callable

import numpy as np

from specsim.assertion import require_kind, require_present
from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.operations.protocol import Operations
from specsim.phases import (
    Batch,
    DraftInput,
    EagleDraftExtendInput,
    FrozenKVMTPDraftInput,
    FrozenKVMTPVerifyInput,
    PhaseTag,
    VerifyInput,
    expect_phase,
)
from specsim.reference.worker.draft import link, map_hot, roots
from specsim.reference.worker.prefill import TargetPrefill
from specsim.simulation.models.batches import DraftOutput, ListedKeys
from specsim.simulation.models.frozen import FrozenDraftBatch, FrozenKVModel

Forward = Callable[[FrozenDraftBatch[Array]], DraftOutput[Array]]


def draft_frozen(
    phase: DraftInput,
    config: SpecConfig,
    model: FrozenKVModel[Array],
    forward: Forward,
    req_to_token: Array,
    verify_slots: Callable[[], Array],
    operations: Operations[Array],
) -> VerifyInput:
    """Draft a tree for every request: as many forwards as steps, of which the first one makes the candidates.

    Parameters
    ----------
    phase : FrozenKVMTPDraftInput
        Root and seed of each request; it carries no candidates.
    forward : callable
        Runs the draft of the model over the target's KV.
    req_to_token : int32 [row, position]
        The request-to-token map; no slot behind the committed ones is read, and none is written.
    verify_slots : callable
        Returns int64 [request*node], the slots that the target will write; called when the trees are built.

    Notes
    -----
    Source: semantics D.11.
    """
    expect_phase(phase, PhaseTag.FROZEN_KV_MTP_DRAFT)
    if config.num_steps == 0:
        return roots(phase, verify_slots(), FrozenKVMTPVerifyInput)
    topk = config.topk
    beams = operations.prepare_for_frozen_kv_draft(phase.req_pool_indices, phase.seq_lens, topk)
    lengths = beams.beam_seq_lens
    metadata = operations.generate_attn_arg_prefill(
        beams.beam_req_pool_indices, req_to_token, lengths, np.ones(len(lengths), np.int32), int(lengths.sum())
    )
    keys = ListedKeys(metadata.kv_indices, metadata.kv_indptr, req_to_token.shape[1])
    input_ids = np.repeat(phase.bonus_tokens.astype(np.int64), topk)
    hidden_states = np.repeat(require_present("seed", phase.hidden_states), topk, axis=0)
    scores, choices = None, []
    for step in range(config.num_steps):
        drafted = forward(FrozenDraftBatch(input_ids, beams.positions, keys, hidden_states, step + 1))
        probabilities, carried = drafted.probabilities, require_present("what is carried on", drafted.hidden_states)
        if step == 0:
            # NOTE: all copies of a seed come to the same.
            probabilities, carried = probabilities[::topk], carried[::topk]
        proposal = operations.fast_topk(probabilities, topk)
        chosen = operations.select_top_k_tokens(
            step, proposal.topk_values, map_hot(proposal.topk_index, model, operations), carried, scores, topk
        )
        input_ids, scores = chosen.input_ids, chosen.next_scores
        hidden_states = require_present("what is carried on", chosen.next_hidden_states)
        choices.append(chosen)
    return link(phase, config, choices, verify_slots, operations, FrozenKVMTPVerifyInput)


def seed_of_prefill(behind: TargetPrefill, topk: int) -> FrozenKVMTPDraftInput:
    """Return what starts the first draft behind chunks: no forward of the draft has run.

    Notes
    -----
    Source: semantics D.11.
    """
    hidden_states = require_present("hidden states of the target", behind.output.hidden_states)
    return frozen_draft_input(behind.row, behind.ends, behind.following, hidden_states[behind.last], topk)


def seed_of_extend(batch: Batch, topk: int, operations: Operations[Array]) -> FrozenKVMTPDraftInput:
    """Return what starts the next draft of the requests that go on: their last tokens, and the states before these.

    Parameters
    ----------
    batch : Batch
        As ``prepare_extend_after_decode`` returns it.

    Notes
    -----
    Source: semantics D.11.
    """
    expect_phase(batch.info, PhaseTag.FROZEN_KV_MTP_DRAFT_EXTEND)
    phase = require_kind("what is installed", batch.info, EagleDraftExtendInput)
    selected = operations.select_last_verified(phase.num_accepted_tokens)
    hidden_states = require_present("hidden states of the target", phase.hidden_states)[selected]
    return frozen_draft_input(phase.req_pool_indices, phase.seq_lens, phase.bonus_tokens, hidden_states, topk)


def frozen_draft_input(
    row: Array, seq_lens: Array, bonus_tokens: Array, hidden_states: Array, topk: int
) -> FrozenKVMTPDraftInput:
    """Return a draft input of seeds, with zeros in the place of candidates."""
    return FrozenKVMTPDraftInput(
        req_pool_indices=row,
        seq_lens=seq_lens.astype(np.int64),
        topk_p=np.zeros((len(row), topk), dtype=np.float32),
        topk_index=np.zeros((len(row), topk), dtype=np.int64),
        hidden_states=hidden_states,
        bonus_tokens=bonus_tokens.astype(np.int32),
    )
