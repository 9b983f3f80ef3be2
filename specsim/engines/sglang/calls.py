"""Functions that a running SGLang calls, read as calls of operations, for ``specsim.record``.

A call is read as it is made: what SGLang hands over as buffers for outputs are its outputs, and their shapes say what
the operation takes as numbers. Nothing is looked at but shapes. A call in a form that no operation has is left out.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from specsim.conformance.recording.taps import Tap
from specsim.engines.adapter import Definition
from specsim.engines.sglang import compact, draft, draft_cache, slots, tree, verify
from specsim.engines.sglang.release import in_release

if TYPE_CHECKING:
    import torch

Named = Mapping[str, Any] | None
Reads = Callable[..., Named]
Outputs = Callable[..., Sequence[Any]]

GREEDY = in_release("verify_tree_greedy_func", "kernels.ops.speculative.spec_tree")
SAMPLED = in_release("tree_speculative_sampling_target_only", "kernels.ops.speculative.sampling")
FULL_MASK, NODES_ALONE, BITS = range(3)


def _given(reads: Reads, *names: str) -> Outputs:
    """Return what returns buffers that SGLang hands over, as the function that reads the call calls them."""
    signature = inspect.signature(reads)

    def outputs(_: Any, *positional: Any, **named: Any) -> Sequence[Any]:
        arguments = signature.bind(*positional, **named).arguments
        return [arguments[name] for name in names]

    return outputs


def _one(returned: Any, *_: Any, **__: Any) -> Sequence[Any]:
    return (returned,)


def _all(returned: Any, *_: Any, **__: Any) -> Sequence[Any]:
    return tuple(returned)


def _none(*_: Any, **__: Any) -> Sequence[Any]:
    return ()


def _fast_topk(values: "torch.Tensor", topk: int, dim: int) -> Named:
    return {"values": values, "k": topk} if dim in (-1, values.dim() - 1) else None


def _select(
    i: int,
    topk_p: "torch.Tensor",
    topk_index: "torch.Tensor",
    hidden_states: "torch.Tensor | None",
    scores: "torch.Tensor | None",
    topk: int,
) -> Named:
    names = ("step_index", "topk_p", "topk_index", "hidden_states", "scores", "topk")
    return dict(zip(names, (i, topk_p, topk_index, hidden_states, scores, topk), strict=True))


def _selected(returned: Any, *_: Any, **__: Any) -> Sequence[Any]:
    input_ids, hidden_states, scores, blocks = returned
    return input_ids, hidden_states, scores, *blocks


def _organize(score_list: Any, token_list: Any, parents_list: Any, num_draft_token: int) -> Named:
    lists = {"score_list": score_list, "token_list": token_list, "parents_list": parents_list}
    return {**lists, "num_draft_tokens": num_draft_token}


def _build(
    bonus_tokens: "torch.Tensor",
    parent_list: "torch.Tensor",
    top_scores_index: "torch.Tensor",
    draft_tokens: "torch.Tensor",
    seq_lens: "torch.Tensor",
    seq_lens_sum: int,
    topk: int,
    spec_steps: int,
    num_verify_tokens: int,
    tree_mask_mode: int = FULL_MASK,
    tree_mask_buf: "torch.Tensor | None" = None,
    fill_prefix_mask: bool = True,
) -> Named:
    if not fill_prefix_mask:
        return None
    arrays = {"bonus_tokens": bonus_tokens, "parent_list": parent_list, "top_scores_index": top_scores_index}
    sizes = {"topk": topk, "num_steps": spec_steps, "num_draft_tokens": num_verify_tokens}
    rest = {"draft_tokens": draft_tokens, "seq_lens": seq_lens, "mask_mode": tree_mask_mode}
    return {**arrays, **sizes, **rest, "seq_lens_sum": seq_lens_sum}


def _built(returned: Any, *positional: Any, **named: Any) -> Sequence[Any]:
    """Reorder the outputs; of a mask in a buffer that is kept, the part of this call comes first."""
    tree_mask, positions, *links, draft_token = returned
    read = dict(_build(*positional, **named) or {})
    num_requests, num_nodes = len(read["seq_lens"]), read["num_draft_tokens"]
    size = num_nodes * num_requests * (1 if read["mask_mode"] == BITS else num_nodes)
    size += num_nodes * read["seq_lens_sum"] if read["mask_mode"] == FULL_MASK else 0
    return draft_token, *links, positions, tree_mask.reshape(-1)[:size]


def _assign_draft(
    req_pool_indices: "torch.Tensor",
    req_to_token: "torch.Tensor",
    seq_lens: "torch.Tensor",
    out_cache_loc: "torch.Tensor",
    topk: int,
    num_cols: int,
    positions: "torch.Tensor | None" = None,
    mrope: "torch.Tensor | None" = None,
) -> Named:
    arrays = {"req_pool_indices": req_pool_indices, "req_to_token": req_to_token, "seq_lens": seq_lens}
    return {**arrays, "topk": topk, "num_steps": num_cols, "page_size": 1, "num_copies": 0}


def _assigned_draft(returned: Any, *positional: Any, **named: Any) -> Sequence[Any]:
    (out_cache_loc,) = _given(_assign_draft, "out_cache_loc")(returned, *positional, **named)
    return out_cache_loc, out_cache_loc.new_empty(0), out_cache_loc.new_empty(0)


def _per_step(out_cache_loc: "torch.Tensor", batch_size: int, topk: int, num_steps: int) -> Named:
    return {"out_cache_loc": out_cache_loc, "topk": topk, "num_steps": num_steps}


def _argmax(x: "torch.Tensor") -> Named:
    return {"logits": x}


def _top_k(probs: "torch.Tensor", top_k: "torch.Tensor | int") -> Named:
    return None if isinstance(top_k, int) else {"probabilities": probs, "top_k": top_k}


def _top_p(probs: "torch.Tensor", top_p: "torch.Tensor | float") -> Named:
    return None if isinstance(top_p, float | int) else {"probabilities": probs, "top_p": top_p}


def _greedy(
    predicts: "torch.Tensor",
    accept_index: "torch.Tensor",
    accept_token_num: "torch.Tensor",
    candidates: "torch.Tensor",
    retrieve_index: "torch.Tensor",
    retrieve_next_token: "torch.Tensor",
    retrieve_next_sibling: "torch.Tensor",
    target_predict: "torch.Tensor",
    topk: int = -1,
) -> Named:
    links = {"retrieve_index": retrieve_index, "retrieve_next_token": retrieve_next_token}
    tree = {"candidates": candidates, **links, "retrieve_next_sibling": retrieve_next_sibling}
    return {**tree, "target_predict": target_predict, "num_steps": accept_index.shape[1] - 1}


def _sampled(
    predicts: "torch.Tensor",
    accept_index: "torch.Tensor",
    accept_token_num: "torch.Tensor",
    candidates: "torch.Tensor",
    retrive_index: "torch.Tensor",
    retrive_next_token: "torch.Tensor",
    retrive_next_sibling: "torch.Tensor",
    uniform_samples: "torch.Tensor",
    uniform_samples_for_final_sampling: "torch.Tensor",
    target_probs: "torch.Tensor",
    draft_probs: "torch.Tensor",
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> Named:
    return {
        "candidates": candidates,
        "retrieve_index": retrive_index,
        "retrieve_next_token": retrive_next_token,
        "retrieve_next_sibling": retrive_next_sibling,
        "uniform_samples": uniform_samples,
        "uniform_samples_for_final_sampling": uniform_samples_for_final_sampling,
        "target_probs": target_probs,
        "draft_probs": draft_probs,
        "threshold_single": uniform_samples.new_full((len(candidates),), threshold_single),
        "threshold_acc": uniform_samples.new_full((len(candidates),), threshold_acc),
        "num_steps": accept_index.shape[1] - 1,
        "strict": True,
        "skip_duplicates": False,
    }


def _bonus(
    accept_tokens: "torch.Tensor",
    num_accepted_tokens: "torch.Tensor",
    bonus_tokens: "torch.Tensor",
    accept_stride: int,
    batch_size: int,
    /,
) -> Named:
    rows = accept_tokens.reshape(-1)[: batch_size * accept_stride].view(batch_size, accept_stride)
    return {"accept_tokens": rows, "num_accepted_tokens": num_accepted_tokens}


def _accepted_slots(
    accept_index: "torch.Tensor", out_cache_loc: "torch.Tensor", accept_out_cache_loc: "torch.Tensor", size: int
) -> Named:
    return {"accept_index": accept_index, "out_cache_loc": out_cache_loc} if accept_index.dim() == 2 else None


def _front_slots(
    num_front: "torch.Tensor", out_cache_loc: "torch.Tensor", front_out_cache_loc: "torch.Tensor"
) -> Named:
    width, rest = divmod(len(front_out_cache_loc), max(len(num_front), 1))
    arrays = {"num_accepted_tokens": num_front, "out_cache_loc": out_cache_loc.reshape(-1)}
    return None if rest or not width else {**arrays, "num_steps": width - 1}


def _assign(
    req_pool_indices: "torch.Tensor",
    req_to_token: "torch.Tensor",
    start_offset: "torch.Tensor",
    end_offset: "torch.Tensor",
    out_cache_loc: "torch.Tensor",
    batch_size: int,
) -> Named:
    offsets = {"start_offsets": start_offset, "end_offsets": end_offset}
    table = {"req_pool_indices": req_pool_indices, "req_to_token": req_to_token}
    return {**table, **offsets, "out_cache_loc": out_cache_loc}


def _rotate(
    input_ids: "torch.Tensor",
    extend_start_loc: "torch.Tensor",
    extend_seq_lens: "torch.Tensor",
    topk_index: "torch.Tensor",
    select_index: "torch.Tensor | None" = None,
) -> Named:
    places = {"extend_start_loc": extend_start_loc, "extend_seq_lens": extend_seq_lens, "select_index": select_index}
    return {"input_ids": input_ids, "next_tokens": topk_index.reshape(-1), **places}


def _tap(operation: str, definition: Definition, reads: Reads, outputs: Outputs) -> Tap:
    return Tap(operation, definition.name, definition.modules, reads, outputs)


OUTPUTS_OF_A_WALK = ("predicts", "accept_index", "accept_token_num")
CALLS = (
    _tap("fast_topk", draft.FAST_TOPK, _fast_topk, _all),
    _tap("select_top_k_tokens", draft.SELECT_TOP_K_TOKENS, _select, _selected),
    _tap("organize_draft_results", draft.ORGANIZE_DRAFT_RESULTS, _organize, _all),
    _tap("assign_draft_cache_locs", draft_cache.ASSIGN, _assign_draft, _assigned_draft),
    _tap("per_step_draft_out_cache_loc", draft_cache.PER_STEP, _per_step, _one),
    _tap("build_tree", tree.BUILD_TREE, _build, _built),
    _tap("argmax_target_predict", verify.ROW_ARGMAX, _argmax, _one),
    _tap("verify_tree_greedy", GREEDY, _greedy, _given(_greedy, *OUTPUTS_OF_A_WALK)),
    _tap("top_k_renorm", verify.TOP_K, _top_k, _one),
    _tap("top_p_renorm", verify.TOP_P, _top_p, _one),
    _tap("tree_speculative_sampling_target_only", SAMPLED, _sampled, _given(_sampled, *OUTPUTS_OF_A_WALK)),
    _tap("fill_bonus_tokens", compact.BONUS, _bonus, _given(_bonus, "bonus_tokens")),
    _tap(
        "fill_accept_out_cache_loc",
        compact.ACCEPTED_SLOTS,
        _accepted_slots,
        _given(_accepted_slots, "accept_out_cache_loc"),
    ),
    _tap(
        "fill_accept_target_cache_loc",
        compact.FRONT_SLOTS,
        _front_slots,
        _given(_front_slots, "front_out_cache_loc"),
    ),
    _tap("assign_req_to_token_pool", slots.ASSIGN, _assign, _none),
    _tap("rotate_input_ids", slots.ROTATE, _rotate, _none),
)
