"""Inputs of single operations that an iteration has under another form, or not at all."""

from typing import Any

import torch
from torch import Tensor

from specsim import gpu
from specsim.config import INDEXER_PAGE_KEYS, INDEXER_SCALE_BYTES
from specsim.gpu.arrays import DEVICE
from specsim.gpu.bench.from_logits import NUM_STEPS, TOP_K, TOP_P, sampling_of
from specsim.gpu.bench.iteration import HASH_VOCAB, TEXT_BUCKETS, TEXT_VOCAB, Iteration

INDEXER_KEY_BYTES = 128
RECENT, WORDS, KEPT, SHARE = 7, 32, 3, 0.75
STATES, FORBIDDEN = 32, 0.1
LISTED, TOP = 4, 5
QUERY_HEADS = 4
"""Query heads of a KV head."""


def penalties(it: Iteration) -> dict[str, Any]:
    """Return counts of outputs that have every hundredth token of the vocabulary, and three penalties."""
    token_counts = (torch.rand((it.batch, it.sizes.vocab), device=DEVICE) < 0.01).int()
    names = ("frequency_penalty", "presence_penalty", "repetition_penalty")
    return {"token_counts": token_counts, **dict(zip(names, map(it.each, (0.1, 0.2, 1.1)), strict=True))}


def preparation(it: Iteration) -> dict[str, Any]:
    """Return every penalty, a bias and a mask."""
    shape = (it.batch, it.sizes.vocab)
    return {
        "scaling_penalty": torch.rand(shape, device=DEVICE) + 0.5,
        "additive_penalty": torch.randn(shape, device=DEVICE),
        "logit_bias": torch.randn(shape, device=DEVICE),
        "vocab_mask": words(it, it.num_nodes),
    }


def words(it: Iteration, num_rows: int) -> Tensor:
    """Return rows of random truth values, a bit a token."""
    return torch.randint(-(2**31), 2**31, (num_rows, -(-it.sizes.vocab // 32)), dtype=torch.int32, device=DEVICE)


def grammar(it: Iteration) -> dict[str, Any]:
    """Return a table of states that forbids some tokens in each, and a state of every request."""
    transitions = it.ids(STATES, it.sizes.vocab, below=STATES, dtype=torch.int32)
    transitions[torch.rand(transitions.shape, device=DEVICE) < FORBIDDEN] = -1
    is_terminated = torch.arange(STATES, device=DEVICE) == STATES - 1
    grammar_state = it.ids(it.batch, below=STATES - 1, dtype=torch.int32)
    return {"transitions": transitions, "is_terminated": is_terminated, "grammar_state": grammar_state}


def forbidden(it: Iteration) -> dict[str, Any]:
    """Return rules that half the requests are under: a stop comes too early for them."""
    return {
        "num_output_tokens": it.each(100, torch.int32),
        "min_tokens": torch.where(torch.arange(it.batch, device=DEVICE) % 2 == 0, 200, 0).int(),
        "stop_mask": words(it, it.batch),
        "recent_tokens": it.ids(it.batch, RECENT),
        "bad_words": it.ids(it.batch, WORDS, RECENT + 1),
        "vocab_size": it.sizes.vocab,
    }


def committed(it: Iteration) -> dict[str, Any]:
    """Return what is known of the output of every row."""
    rows = it.batch + 1
    return {
        "token_counts": it.ids(rows, it.sizes.vocab, below=3, dtype=torch.int32),
        "num_output_tokens": it.each(100, torch.int32, rows),
        "recent_tokens": it.ids(rows, RECENT),
        "counts_all": it.each(1, torch.bool),
    }


def chain(it: Iteration) -> dict[str, Any]:
    """Return chains whose draft is near the target: about as close as two tokens of five are kept."""
    scores = torch.randn((it.batch, NUM_STEPS + 1, it.sizes.vocab), device=DEVICE) * 3
    target = scores.softmax(-1).flatten(0, 1)
    scores = scores[:, :NUM_STEPS]
    draft = scores.add(torch.randn_like(scores), alpha=0.7).softmax(-1).flatten(0, 1)
    return {
        "draft_tokens": draft.multinomial(1).view(-1),
        "cu_num_drafts": it.starts(NUM_STEPS),
        "uniform_samples": torch.rand(it.batch * NUM_STEPS, device=DEVICE),
        "uniform_samples_for_final_sampling": torch.rand(it.batch, device=DEVICE),
        "draft_probs": draft,
        "target_probs": target,
        "max_num_drafts": NUM_STEPS,
    }


def greedy_chain(it: Iteration) -> dict[str, Any]:
    """Return chains of which the target agrees with about two drafts of three."""
    chosen = it.ids(it.batch, NUM_STEPS + 1)
    drafts = torch.where(it.ids(it.batch, NUM_STEPS, below=3) > 0, chosen[:, :NUM_STEPS], it.ids(it.batch, NUM_STEPS))
    return {
        "draft_tokens": drafts.flatten(),
        "cu_num_drafts": it.starts(NUM_STEPS),
        "target_predict": chosen.flatten(),
        "max_num_drafts": NUM_STEPS,
    }


def sampled_tree(it: Iteration) -> dict[str, Any]:
    """Return trees, coins and the target's probabilities of every node."""
    probabilities = it.probabilities.view(it.batch, it.num_draft_tokens, -1)
    return {
        **it.links,
        **it.sampling,
        "target_probs": probabilities,
        "draft_probs": torch.zeros_like(probabilities),
    }


def recurrent(it: Iteration) -> dict[str, Any]:
    """Return states of requests and of the nodes of their trees, of which the last accepted one is committed."""
    sizes = it.sizes

    def states(*places: int) -> list[Tensor]:
        form = (*places, *sizes.state)
        return [torch.zeros(form, dtype=torch.bfloat16, device=DEVICE) for _ in range(sizes.state_layers)]

    last = it.accept_index.gather(1, it.num_accepted_drafts[:, None].long())[:, 0].long()
    return {
        "state_buffers": gpu.KVBuffers(states(it.batch + 1)),
        "step_buffers": gpu.KVBuffers.of_steps(states(it.batch, it.num_draft_tokens)),
        "state_slots": it.req_pool_indices,
        "commit_step": last % it.num_draft_tokens,
        "snapshot_slots": it.each(-1, torch.int64),
        "snapshot_step": it.each(-1, torch.int64),
    }


def window_of_drafts(it: Iteration) -> dict[str, Any]:
    """Return windows of a fixed width, whose padding is what was not accepted."""
    width = it.num_steps + 1
    return {
        "input_ids": it.ids(it.num_kept),
        "positions": it.positions_after(width),
        "out_cache_loc": it.slots_after(width),
        "hidden_states": it.hidden(it.num_kept),
        "extend_start_loc": it.starts(width)[:-1],
        "extend_seq_lens": it.each(width, torch.int32),
        "next_tokens": it.ids(it.batch),
        "num_padding": width - it.num_accepted_tokens,
        "forward_seq_lens": it.seq_lens + width,
        "hidden_states_pool": it.hidden(it.batch + 1, KEPT),
        "draft_layer": 1,
    }


def tree_attention(it: Iteration, page_size: int) -> dict[str, Any]:
    """Return queries of four heads a KV head, K and V of one layer, and the pages of each request."""
    num_kv_heads, head_dim = it.sizes.kv_entry

    def numbers(*shape: int) -> Tensor:
        return torch.randn((*shape, head_dim), device=DEVICE, dtype=torch.bfloat16)

    return {
        "q": numbers(it.num_nodes, QUERY_HEADS * num_kv_heads),
        "k_buffer": numbers(it.num_slots, num_kv_heads),
        "v_buffer": numbers(it.num_slots, num_kv_heads),
        "cache_seqlens": (it.seq_lens + it.num_draft_tokens).int(),
        "page_table": it.table[:, ::page_size] // page_size,
        "softmax_scale": None,
        "page_size": page_size,
    }


def extend_on_pages(it: Iteration, width: int) -> dict[str, Any]:
    """Return a forward over so many new tokens of each request, on every page of their texts."""
    return {
        "input_ids": it.ids(it.batch * width, below=HASH_VOCAB),
        "positions": it.positions_after(width),
        "out_cache_loc": it.slots_after(width),
        "page_table": it.table,
        "cache_seqlens": (it.seq_lens + width).int(),
        "cu_seqlens_q": it.starts(width),
    }


def one_token_a_beam(it: Iteration) -> dict[str, Any]:
    """Return a forward over one token a beam."""
    return {
        "kv_buffers": it.kv_words(1),
        "input_ids": it.ids(it.beams, below=HASH_VOCAB),
        "hidden_states": it.tags(it.beams),
        "positions": it.seq_lens.repeat_interleave(it.topk),
        **it.beam_lists(),
    }


def text_counts(it: Iteration, num_tokens: int, orders: int) -> dict[str, Any]:
    """Return contexts and counts of a text model of so many orders."""
    counts = torch.randint(0, 256, (orders, TEXT_BUCKETS, TEXT_VOCAB), dtype=torch.uint8, device=DEVICE)
    return {"hidden_states": it.tags(num_tokens), "ngram_counts": counts}


def unfinished_index(it: Iteration) -> Tensor:
    """Return most of the requests."""
    return torch.arange(max(1, int(it.batch * SHARE)), device=DEVICE)


def finishing(it: Iteration) -> dict[str, Any]:
    """Return slots of accepted nodes, of which those of unfinished requests stay."""
    num_unfinished_tokens = torch.zeros_like(it.num_accepted_tokens)
    unfinished = unfinished_index(it)
    num_unfinished_tokens[unfinished] = it.num_accepted_tokens[unfinished]
    return {
        "target_slots": it.ids(it.num_output, below=it.num_slots),
        "num_unfinished_tokens": num_unfinished_tokens,
        "num_locations": int(num_unfinished_tokens.sum()),
    }


def filters(it: Iteration, top_k: int = TOP_K, top_p: float = TOP_P) -> dict[str, Any]:
    """Return what changes rows of probabilities: a temperature, top-k, top-p and min-p of each request."""
    names = ("temperature", "top_k", "top_p", "min_p")
    sampling = sampling_of(it.batch, it.num_draft_tokens, top_k, top_p)
    return {name: sampling[name] for name in names}


def rows_to_draw(it: Iteration, top_k: int = TOP_K, top_p: float = TOP_P) -> dict[str, Any]:
    """Return what changes draws of rows: filters, a seed a request, and the positions of the nodes of its tree."""
    positions = it.positions_after(it.num_draft_tokens).view(it.batch, it.num_draft_tokens)
    return {**filters(it, top_k, top_p), "seeds": it.ids(it.batch, below=2**63 - 1), "positions": positions}


def verify_range(it: Iteration) -> dict[str, Any]:
    """Return the positions of the tree of each request."""
    return {"start_offsets": it.seq_lens, "end_offsets": it.seq_lens + it.num_draft_tokens}


def kv_moves(it: Iteration) -> dict[str, Any]:
    """Return K and V of every layer in a pool of all nodes, and the moves of the accepted ones."""
    form = (it.num_nodes + 1, *it.sizes.kv_entry)
    buffers = [torch.randn(form, device=DEVICE).bfloat16() for _ in range(2 * it.sizes.num_layers)]
    return {"kv_buffers": gpu.KVBuffers(buffers), **it.pairs(it.small_pool)}


def indexer(it: Iteration) -> dict[str, Any]:
    """Return pages of keys and scales of every layer, and the same moves."""
    form = (it.num_nodes // INDEXER_PAGE_KEYS + 1, INDEXER_PAGE_KEYS * (INDEXER_KEY_BYTES + INDEXER_SCALE_BYTES))
    pages = [torch.zeros(form, dtype=torch.uint8, device=DEVICE) for _ in range(it.sizes.num_layers)]
    buffers = gpu.KVBuffers.of_indexer(pages, INDEXER_KEY_BYTES)
    return {"indexer_buffers": buffers, "head_dim": INDEXER_KEY_BYTES, **it.pairs(it.small_pool)}


def full_to_swa(it: Iteration) -> Tensor:
    """Return a map in which every slot has a counterpart."""
    return torch.cat([torch.zeros(1, dtype=torch.int64, device=DEVICE), it.small_pool])
