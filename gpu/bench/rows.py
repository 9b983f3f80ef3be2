"""Which inputs every operation of the table is measured with, and which of their bytes it cannot do without.

An argument that a row does not name is the attribute of that name of an ``Iteration``, or its default. An array that a
row does not name under ``needed`` is read or written once, as far as the table defines its entries; what is written in
place is always named. Counts are of entries: what is read, and once more what is written.
"""

import torch

from specsim.config import TreeMaskMode
from specsim.gpu.arrays import DEVICE
from specsim.gpu.bench import drawn
from specsim.gpu.bench.from_logits import EVERYTHING, NUM_STEPS, TEMPERATURE, TOP_K, TOP_P, chain_inputs
from specsim.gpu.bench.iteration import HASH_VOCAB, PAGE_SIZE
from specsim.gpu.bench.needed import (
    LOGITS_OF_BLOCKS,
    ROWS_OF_BLOCKS,
    as_many,
    attended,
    buckets_read,
    distinct,
    kv_of_beams,
    kv_of_pages,
    last_rows,
    moved,
    none_of_it,
    of_states,
    pages_attended,
    parents,
    shifted_rows,
    states_reached,
    total,
    visited_rows,
    width,
)
from specsim.gpu.bench.operations import drafted_blocks, tree_inputs
from specsim.gpu.bench.row import Row
from specsim.gpu.bench.scheduled import SCHEDULED

MAP, PAGES = "req_to_token", {"req_to_token": as_many("page_table")}
ATTENDED = {"k_buffer": attended("k_buffer"), "v_buffer": attended("v_buffer"), "page_table": pages_attended}
LISTED_KEYS = {"req_to_token": as_many("kv_indices")}

ROWS: tuple[Row, ...] = (
    # draft
    Row("fast_topk", lambda it: {"values": torch.rand((it.beams, it.sizes.vocab), device=DEVICE), "k": it.topk}),
    Row(
        "select_top_k_tokens",
        lambda it: {
            "step_index": 1,
            "topk_p": torch.rand((it.beams, it.topk), device=DEVICE).sort(1, descending=True).values,
            "topk_index": it.ids(it.beams, it.topk),
            "hidden_states": it.hidden(it.beams),
            "scores": torch.rand((it.batch, it.topk), device=DEVICE),
        },
        {"hidden_states": parents},
    ),
    Row("organize_draft_results", lambda it: drafted_blocks(it.batch, it.topk)),
    Row("organize_chain_draft_results", lambda it: {"token_list": [it.ids(it.batch, 1) for _ in range(NUM_STEPS)]}),
    Row(
        "map_hot_tokens",
        lambda it: {
            "topk_index": it.ids(it.beams, it.topk, below=it.sizes.draft_vocab),
            "hot_token_id": it.ids(it.sizes.draft_vocab),
        },
        {"hot_token_id": distinct("topk_index")},
    ),
    # draft_cache
    Row("assign_draft_cache_locs", needed={MAP: as_many("out_cache_loc")}),
    Row(
        "per_step_draft_out_cache_loc",
        lambda it: {"out_cache_loc": it.ids(it.beams * it.num_steps, below=it.num_slots)},
    ),
    Row(
        "generate_draft_decode_kv_indices",
        lambda it: {"positions": it.seq_lens.repeat_interleave(it.topk)},
        {MAP: lambda call: int(call["seq_lens"].sum()) + call["positions"].numel() * call["num_steps"]},
    ),
    Row(
        "draft_decode_cascade_metadata",
        lambda it: {"page_size": PAGE_SIZE},
        {MAP: as_many("page_table", "expand_page_table")},
        f"pages of {PAGE_SIZE}",
    ),
    # tree
    Row(
        "build_tree",
        lambda it: tree_inputs(it.batch, it.topk, it.num_draft_tokens, TreeMaskMode.QLEN_ONLY, it.sizes.length),
    ),
    Row("reconstruct_indices_from_tree_mask", lambda it: {"tree_mask": it.ancestors}),
    # dflash
    Row("prepare_block_draft", lambda it: {"mask_token": it.sizes.vocab - 1}),
    Row("block_draft_metadata", lambda it: {"draft_window": it.sizes.length // 4}, PAGES, "a window of a quarter"),
    Row("keep_top_k_exactly", lambda it: {"top_k": it.each(TOP_K, torch.int32)}, kind="top-k 50, bf16"),
    Row("fill_block_tokens"),
    # verify
    Row("target_verify_metadata", needed=PAGES),
    Row("argmax_target_predict", lambda it: {"logits": it.logits.float()}, kind="float32"),
    Row("verify_tree_greedy", lambda it: {**it.links, "target_predict": it.drafts.choice}),
    Row("verify_chain_greedy", drawn.greedy_chain, kind="5 drafts"),
    *(Row(*one) for one in SCHEDULED),
    # attention
    Row(
        "verify_cascade_metadata",
        lambda it: {"tree_mask": it.full_mask},
        {
            MAP: lambda call: call["page_table"].numel() + call["expand_cache_seqlens"].numel(),
            "tree_mask": as_many("expand_page_table"),
        },
    ),
    Row("verify_custom_mask_metadata", lambda it: {"tree_mask": it.full_mask}, LISTED_KEYS),
    Row("verify_extend_metadata", needed=LISTED_KEYS),
    Row("idle_attention_metadata", lambda it: {"num_new_keys": 1}, PAGES),
    Row("tree_attention", lambda it: drawn.tree_attention(it, 1), ATTENDED, "bf16, pages of 1"),
    Row("tree_attention", lambda it: drawn.tree_attention(it, PAGE_SIZE), ATTENDED, f"bf16, pages of {PAGE_SIZE}"),
    # drawn.grammar, drawn.penalties, following
    Row("generate_token_bitmask", lambda it: {**it.links, **drawn.grammar(it)}, {"transitions": states_reached}),
    Row("apply_penalties", drawn.penalties, kind="bf16"),
    Row(
        "forbid_tokens",
        drawn.forbidden,
        {
            "stop_mask": lambda call: (
                int((call["num_output_tokens"] < call["min_tokens"]).sum()) * call["stop_mask"].shape[1]
            )
        },
    ),
    Row(
        "commit_output_tokens",
        drawn.committed,
        {
            "token_counts": lambda call: 2 * int((call["accept_index"] >= 0).sum()),
            "num_output_tokens": lambda call: 2 * len(call["req_pool_indices"]),
            "recent_tokens": width("recent_tokens", 2),
        },
    ),
    # probabilities
    Row("prepare_logits", drawn.preparation, kind="bf16"),
    Row("top_k_renorm", lambda it: {"top_k": it.each(TOP_K, torch.int32, it.num_nodes)}, kind="k 50"),
    Row("top_p_renorm", lambda it: {"top_p": it.each(TOP_P, count=it.num_nodes)}, kind="p 0.95"),
    Row("min_p_renorm", lambda it: {"min_p": it.each(0.05, count=it.num_nodes)}, kind="p 0.05"),
    Row("target_probabilities", lambda it: drawn.filters(it, EVERYTHING, 1.0), kind="bf16, temperature alone"),
    Row("target_probabilities", drawn.filters, kind="bf16, top-k 50, top-p 0.95"),
    # acceptance
    Row("generate_coins", lambda it: {"seeds": it.ids(it.batch, below=2**32)}),
    Row(
        "tree_speculative_sampling_target_only",
        drawn.sampled_tree,
        {
            "target_probs": lambda call: len(call["candidates"]) * call["target_probs"].shape[2],
            "draft_probs": none_of_it,
        },
    ),
    Row(
        "chain_speculative_sampling",
        drawn.chain,
        {
            "target_probs": lambda call: len(call["num_accepted_drafts"]) * call["target_probs"].shape[1],
            "draft_probs": lambda call: (
                int((call["num_accepted_drafts"] < NUM_STEPS).sum()) * call["draft_probs"].shape[1]
            ),
        },
        "5 drafts",
    ),
    Row("chain_block_verification", drawn.chain, ROWS_OF_BLOCKS, "5 drafts"),
    Row("generate_simulated_accept_index", lambda it: {"simulated_num_tokens": 3}),
    # from_logits
    Row("verify_tree_greedy_from_logits", lambda it: it.links, {"logits": visited_rows}, "bf16"),
    Row(
        "verify_tree_sampled_from_logits",
        lambda it: {**it.links, **it.sampling},
        {"logits": visited_rows},
        "bf16, top-k 50, top-p 0.95",
    ),
    Row(
        "verify_tree_sampled_from_logits",
        lambda it: {**it.links, **it.sampling, **dict.fromkeys(("top_k", "top_p", "min_p"))},
        {"logits": visited_rows},
        "bf16, temperature alone",
    ),
    Row(
        "chain_speculative_sampling_from_logits",
        lambda it: chain_inputs(it.batch, it.sizes.vocab),
        {
            "target_logits": lambda call: int((call["num_accepted_drafts"] + 1).sum()) * call["target_logits"].shape[1],
            "draft_logits": lambda call: (
                int((call["num_accepted_drafts"] + 1).clamp(max=NUM_STEPS).sum()) * call["draft_logits"].shape[1]
            ),
        },
        "5 drafts, bf16, temperature alone",
    ),
    Row(
        "chain_block_verification_from_logits",
        lambda it: chain_inputs(it.batch, it.sizes.vocab),
        LOGITS_OF_BLOCKS,
        "5 drafts, bf16, temperature alone",
    ),
    # sampled_verify
    Row("sample_target_predict", lambda it: drawn.rows_to_draw(it, EVERYTHING, 1.0), kind="bf16, temperature alone"),
    Row("sample_target_predict", drawn.rows_to_draw, kind="bf16, top-k 50, top-p 0.95"),
    # logprobs
    Row(
        "gather_output_logprobs",
        lambda it: {
            "temperature": it.each(TEMPERATURE),
            "token_ids": it.ids(it.batch, drawn.LISTED),
            "num_top": drawn.TOP,
        },
        kind="bf16, top 5, 4 listed",
    ),
    # compact
    Row("gather_accept_tokens"),
    Row("fill_bonus_tokens"),
    Row("fill_accept_out_cache_loc"),
    Row("fill_accept_target_cache_loc"),
    Row(
        "compact_accepted_to_front",
        lambda it: {"values": it.hidden(it.num_nodes)},
        {"values": lambda call: int((call["accept_index"] >= 0).sum()) * call["values"].shape[1]},
        "hidden states",
    ),
    Row("move_kv_cache", drawn.kv_moves, {"kv_buffers": moved("kv_buffers")}, "accepted nodes"),
    # pools
    Row("move_indexer_cache", drawn.indexer, {"indexer_buffers": moved("indexer_buffers")}, "accepted nodes"),
    Row(
        "translate_move_slots",
        lambda it: {"full_to_swa": drawn.full_to_swa(it), **it.pairs(it.small_pool)},
        {"full_to_swa": distinct("target_slots", "source_slots")},
    ),
    # recurrent
    Row("get_recurrent_steps", lambda it: {"interval": 256}),
    Row(
        "commit_recurrent_states",
        drawn.recurrent,
        {"state_buffers": of_states("state_buffers"), "step_buffers": of_states("step_buffers")},
        "4 layers of 1 MiB",
    ),
    # slots
    Row("assign_req_to_token_pool", drawn.verify_range, {MAP: as_many("out_cache_loc")}),
    Row(
        "assign_extend_cache_locs",
        lambda it: {**drawn.verify_range(it), "num_locations": it.num_nodes},
        {MAP: as_many("out_cache_loc")},
    ),
    Row("remap_accepted_slots", needed={MAP: lambda call: int((call["accept_index"] >= 0).sum())}),
    # pages
    Row(
        "align_evict_mask_to_page_size",
        lambda it: {"page_size": PAGE_SIZE},
        {"evict_mask": as_many("evict_mask")},
        f"pages of {PAGE_SIZE}",
    ),
    Row("get_src_tgt_cache_loc", lambda it: {"page_size": PAGE_SIZE}, kind=f"pages of {PAGE_SIZE}"),
    Row(
        "get_target_cache_loc",
        lambda it: {
            "to_free_num_slots": it.num_draft_tokens - it.num_accepted_tokens,
            "num_target_slots": it.num_output,
            "num_to_free_slots": it.num_nodes - it.num_output,
        },
    ),
    Row(
        "create_num_accepted_drafts_filter",
        lambda it: {"unfinished_index": drawn.unfinished_index(it)},
        {"seq_lens": lambda call: 2 * call["seq_lens"].numel()},
    ),
    Row("filter_finished_cache_loc", drawn.finishing),
    # extend
    Row(
        "rotate_prefill_input_ids",
        lambda it: {
            "input_ids": it.ids(it.seq_lens_sum),
            "extend_lens": it.seq_lens.int(),
            "tail_tokens": it.ids(it.batch),
        },
        kind="whole prompts",
    ),
    Row("prepare_for_extend_to_fill_draft_kvcache"),
    Row("create_extend_after_decode_spec_info", lambda it: {"input_ids": it.ids(it.num_output)}),
    Row(
        "generate_attn_arg_prefill",
        lambda it: {"kv_lens": it.seq_lens, "kv_lens_sum": it.seq_lens_sum},
        LISTED_KEYS,
    ),
    # multi_layer
    Row(
        "rotate_input_ids",
        lambda it: {
            **{
                name: drawn.window_of_drafts(it)[name]
                for name in ("input_ids", "extend_start_loc", "extend_seq_lens", "next_tokens")
            },
            "select_index": it.starts(it.num_steps + 1)[:-1] + it.num_accepted_drafts.long(),
        },
        {"input_ids": lambda call: 2 * call["input_ids"].numel()},
    ),
    Row(
        "assign_new_state",
        drawn.window_of_drafts,
        {
            MAP: lambda call: len(call["req_pool_indices"]),
            "hidden_states_pool": lambda call: len(call["req_pool_indices"]) * call["hidden_states"].shape[1],
        },
    ),
    Row(
        "assign_hidden_states_pool",
        lambda it: {
            "hidden_states": it.hidden(it.num_nodes),
            "extend_start_loc": it.starts(it.num_draft_tokens)[:-1],
            "num_committed": it.num_accepted_tokens,
            "hidden_states_pool": it.hidden(it.batch + 1, drawn.KEPT),
        },
        {"hidden_states": last_rows, "hidden_states_pool": shifted_rows},
    ),
    # frozen_kv
    Row("prepare_for_frozen_kv_draft"),
    Row("select_last_verified"),
    # the toy models
    Row(
        "target_forward",
        lambda it: {
            **drawn.extend_on_pages(it, it.num_draft_tokens),
            "kv_buffers": it.kv_words(it.sizes.num_layers),
        },
        {"kv_buffers": kv_of_pages, "page_table": total("cache_seqlens")},
    ),
    Row(
        "draft_extend_forward",
        lambda it: {
            **drawn.extend_on_pages(it, it.num_steps + 1),
            "kv_buffers": it.kv_words(1),
            "hidden_states": it.tags(it.num_kept),
        },
        {"kv_buffers": kv_of_pages, "page_table": total("cache_seqlens")},
        "one layer",
    ),
    Row(
        "draft_decode_forward",
        lambda it: {**drawn.one_token_a_beam(it), "out_cache_loc": it.slots_after(it.topk)},
        {"kv_buffers": kv_of_beams(as_many("out_cache_loc"))},
        "one layer",
    ),
    Row(
        "frozen_kv_draft_forward",
        lambda it: {**drawn.one_token_a_beam(it), "target_layers": it.ids(1, below=it.sizes.num_layers), "depth": 2},
        {"kv_buffers": kv_of_beams(none_of_it)},
        "one layer",
    ),
    Row("hash_target_logits", lambda it: {"hidden_states": it.tags(it.num_nodes), "vocab_size": HASH_VOCAB}),
    Row("text_target_logits", lambda it: drawn.text_counts(it, it.num_nodes, 5), {"ngram_counts": buckets_read}),
    Row("hash_sampling_logits", lambda it: {"hidden_states": it.tags(it.num_nodes), "vocab_size": HASH_VOCAB}),
    Row(
        "hash_draft_probabilities",
        lambda it: {
            "hidden_states": it.tags(it.beams),
            "context": it.ids(it.beams, below=2**32),
            "vocab_size": HASH_VOCAB,
            "agreement": 2**31,
        },
    ),
    Row(
        "text_draft_probabilities",
        lambda it: {**drawn.text_counts(it, it.beams, 4), "context": it.ids(it.beams, below=2**32)},
        {"ngram_counts": buckets_read},
    ),
)
