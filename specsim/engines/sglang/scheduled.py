"""Scheduled verification and greedy chains: twins in torch of DSpark's kernels, which run without a GPU as they are."""

from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from specsim.config import SURVIVAL_EPS
from specsim.engines.adapter import Adapted
from specsim.engines.sglang.release import engine, in_release

if TYPE_CHECKING:
    import torch

LENGTHS, WINDOWS, ACCEPTANCE = (
    f"kernels.ops.speculative.dspark.dspark_{one}" for one in ("schedule", "verify_window", "accept")
)
LAYOUTS = "kernels.ops.speculative.ragged_verify_kernels"

SURVIVAL = in_release("compute_sort_survival", LENGTHS)
ADMIT = in_release("schedule_verify_lens_topk_from_survival", LENGTHS)
RULES = in_release("DSparkScheduleConfig", "srt.speculative.dspark_components.dspark_planner")
WINDOW = in_release("build_ragged_verify_window", WINDOWS)
OFFSETS = in_release("build_qo_indptr", LAYOUTS)
PAD = in_release("pad_verify_lens_to_bucket", LAYOUTS)
SCATTER = in_release("scatter_compact_to_strided", WINDOWS)
GEOMETRY = in_release("build_ragged_target_verify_geometry", "srt.speculative.ragged_verify")
GREEDY = in_release("accept_greedy", ACCEPTANCE)
CAP = in_release("cap_correct_len", ACCEPTANCE)
TOKENS = in_release("build_out_tokens", WINDOWS)
INJECT = in_release("build_commit_inject_layout", WINDOWS)
INJECT_INTO_RING = in_release("build_ring_commit_inject_layout", WINDOWS)


def schedule_verify_lens(
    confidence: "torch.Tensor",
    num_drafts: "torch.Tensor | None",
    survival_eps: "torch.Tensor | None",
    verify_token_budget: int,
    max_verify_len: int,
    min_verify_len: int = 1,
) -> "torch.Tensor":
    """Admit the drafts that most probably survive; to SGLang all drafts exist, and others get a survival below 0."""
    import torch

    survival = engine().get(SURVIVAL)(confidence)
    if num_drafts is not None:
        place = torch.arange(survival.shape[1], device=survival.device)
        survival = torch.where(place < num_drafts[:, None], survival, -1.0)
    eps = SURVIVAL_EPS if survival_eps is None else survival_eps.item()
    rules = engine().get(RULES)(confidence.shape[1], min_verify_len, max_verify_len, eps)
    lengths: torch.Tensor = engine().get(ADMIT)(survival_probs=survival, budget=verify_token_budget, cfg=rules)
    return lengths


def ragged_verify_window(
    candidates: "torch.Tensor",
    verify_lens: "torch.Tensor",
    req_pool_indices: "torch.Tensor",
    req_to_token: "torch.Tensor",
    seq_lens: "torch.Tensor",
    num_tokens: int,
) -> "tuple[torch.Tensor, ...]":
    """Lay out the rows that are verified; a chain without drafts gets one that is not verified."""
    drafts = candidates[:, 1:] if candidates.shape[1] > 1 else candidates
    window = engine().get(WINDOW)(
        batch=SimpleNamespace(seq_lens=seq_lens, req_pool_indices=req_pool_indices),
        layout=_layout(verify_lens, num_tokens),
        draft_block_ids=candidates,
        draft_tokens=drafts,
        bs=len(candidates),
        device=candidates.device,
        verify_num_draft_tokens=candidates.shape[1],
        model_runner=SimpleNamespace(req_to_token_pool=SimpleNamespace(req_to_token=req_to_token)),
    )
    offsets = engine().get(OFFSETS)(verify_lens=verify_lens).qo_indptr
    return offsets, window.verify_ids, window.positions, window.verify_cache_loc, window.window_index


def pad_verify_lens_to_bucket(
    verify_lens: "torch.Tensor", num_padded_requests: int, num_tokens: int, max_verify_len: int = 2**31 - 1
) -> "torch.Tensor":
    """Give the rows that a captured graph has left to padding; SGLang cuts lengths where it has read them."""
    padded: torch.Tensor = engine().get(PAD)(
        verify_lens=verify_lens, graph_num_tokens=num_tokens, bs=len(verify_lens), padded_bs=num_padded_requests
    )
    return padded.clamp(max=max_verify_len)


def scatter_compact_to_strided(
    values: "torch.Tensor", verify_lens: "torch.Tensor", num_draft_tokens: int
) -> "torch.Tensor":
    """Bring the verified rows of each request to its block; SGLang's rows are flat."""
    strided: torch.Tensor = engine().get(SCATTER)(
        compact=values.flatten(1) if values.ndim > 1 else values[:, None],
        layout=_layout(verify_lens, len(values)),
        fill_value=0,
        verify_num_draft_tokens=num_draft_tokens,
    )
    return strided.view(-1, *values.shape[1:])


def ragged_verify_metadata(
    req_pool_indices: "torch.Tensor",
    req_to_token: "torch.Tensor",
    seq_lens: "torch.Tensor",
    verify_lens: "torch.Tensor",
    max_seq_len_k: int,
    page_size: int = 1,
) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]":
    """Lay out lengths; the page table, which SGLang leaves to its backends, is read by the formula."""
    offsets = engine().get(OFFSETS)(verify_lens=verify_lens).qo_indptr
    layout = SimpleNamespace(verify_lens=verify_lens, qo_indptr_device=offsets, verify_lens_cpu=None)
    geometry = engine().get(GEOMETRY)(seq_lens=seq_lens, layout=layout)
    table = req_to_token[req_pool_indices.long(), :max_seq_len_k:page_size] // page_size
    return geometry.cache_seqlens_int32, geometry.cu_seqlens_q, geometry.cu_seqlens_k, table.int()


def verify_chain_greedy(
    draft_tokens: "torch.Tensor", cu_num_drafts: "torch.Tensor", target_predict: "torch.Tensor", max_num_drafts: int
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Accept chains greedily; SGLang's are equally long and come with logits, so tokens are numbered by their order."""
    import torch

    num_requests, num_nodes = len(cu_num_drafts) - 1, max_num_drafts + 1
    drafts = draft_tokens.new_full((num_requests, max_num_drafts), -1)
    choices = target_predict.new_zeros((num_requests, num_nodes))
    for request, (first, last) in enumerate(pairwise(cu_num_drafts.tolist())):
        drafts[request, : last - first] = draft_tokens[first:last]
        choices[request, : last - first + 1] = target_predict[first + request : last + request + 1]
    tokens, numbers = torch.unique(torch.cat([drafts, choices], dim=1), return_inverse=True)
    count, bonus, _ = engine().get(GREEDY)(
        candidates=torch.cat([numbers[:, :1], numbers[:, :max_num_drafts]], dim=1),
        target_logits=torch.nn.functional.one_hot(numbers[:, max_num_drafts:].reshape(-1), len(tokens)).float(),
        verify_num_draft_tokens=num_nodes,
    )
    output = engine().get(TOKENS)(
        draft_tokens=drafts,
        correct_len=count,
        bonus=tokens[bonus],
        verify_num_draft_tokens=num_nodes,
        gamma=max_num_drafts,
    )
    is_output = torch.arange(num_nodes, device=output.device) <= count[:, None]
    return torch.where(is_output, output, -1).int(), count


def cap_accepted_drafts(
    candidates: "torch.Tensor",
    num_accepted_drafts: "torch.Tensor",
    bonus_tokens: "torch.Tensor",
    verify_lens: "torch.Tensor",
    is_compact: bool = False,
) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    """Cut an acceptance to what was scheduled; the token at the cut is the output's at that place."""
    kept, trimmed = engine().get(CAP)(correct_len=num_accepted_drafts, verify_lens=verify_lens)
    num_nodes = candidates.shape[1]
    output = engine().get(TOKENS)(
        draft_tokens=candidates[:, 1:],
        correct_len=num_accepted_drafts,
        bonus=bonus_tokens.long(),
        verify_num_draft_tokens=num_nodes,
        gamma=num_nodes - 1,
    )
    return kept, output.gather(1, kept.long()[:, None]).flatten(), trimmed


def commit_inject_layout(
    req_pool_indices: "torch.Tensor",
    req_to_token: "torch.Tensor",
    seq_lens: "torch.Tensor",
    commit_lens: "torch.Tensor",
    verify_lens: "torch.Tensor | None",
    slot_map: "torch.Tensor | None",
    num_draft_tokens: int,
    ring_size: int = 0,
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Lay out where committed rows enter the draft cache; SGLang has cut lengths to what was verified before."""
    import torch

    committed = commit_lens if verify_lens is None else torch.minimum(commit_lens, verify_lens)
    given: dict[str, Any] = {
        "req_pool_indices": req_pool_indices,
        "prefix_lens": seq_lens,
        "block_pos_offsets": torch.arange(num_draft_tokens, device=seq_lens.device),
        "commit_lens": committed,
        "stride": num_draft_tokens,
    }
    if ring_size > 0:
        layout = engine().get(INJECT_INTO_RING)(**given, ring_stride=ring_size)
    else:
        slots = slot_map
        if slots is None:
            slots = torch.arange(int(req_to_token.max()) + 1 if req_to_token.numel() else 1, device=seq_lens.device)
        layout = engine().get(INJECT)(**given, req_to_token=req_to_token, full_to_swa_mapping=slots)
    return layout.swa_loc, layout.positions


def _layout(verify_lens: "torch.Tensor", num_tokens: int) -> SimpleNamespace:
    """Return what the twins read of a layout."""
    return SimpleNamespace(verify_lens=verify_lens, graph_num_tokens=num_tokens)


LIMITS = {"cap_accepted_drafts": {"is_compact": (0,)}}
"""SGLang counts what a cut lost also where rows after it were not computed."""


TABLE = (
    Adapted(schedule_verify_lens, (SURVIVAL, ADMIT, RULES)),
    Adapted(ragged_verify_window, (WINDOW, OFFSETS)),
    Adapted(pad_verify_lens_to_bucket, (PAD,)),
    Adapted(scatter_compact_to_strided, (SCATTER,)),
    Adapted(ragged_verify_metadata, (GEOMETRY, OFFSETS)),
    Adapted(verify_chain_greedy, (GREEDY, TOKENS)),
    Adapted(cap_accepted_drafts, (CAP, TOKENS)),
    Adapted(commit_inject_layout, (INJECT, INJECT_INTO_RING)),
)
