"""The inputs of a draft-extend, and the attention metadata of ragged forwards."""

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from specsim.engines.adapter import Adapted
from specsim.engines.sglang.release import Rotated, engine, in_release

if TYPE_CHECKING:
    import torch

EAGLE = "kernels.ops.speculative.eagle"
INPUTS = "srt.speculative.eagle_info"
TRANSLATOR = "srt.mem_cache.kv_index_translator"
PREFILL = in_release("EagleDraftWorker._draft_extend_for_prefill", "srt.speculative.eagle_worker_v2")
TAIL_TOKENS = in_release("_eagle_prefill_tail_tokens", "srt.speculative.eagle_utils")
LAYOUT = in_release("prepare_draft_extend_layout", EAGLE)
SELECT = in_release("prepare_draft_extend_inputs", EAGLE)
EXTEND = in_release("EagleDraftExtendInput.generate_attn_arg_prefill", INPUTS)
VERIFY = in_release("EagleVerifyInput.generate_attn_arg_prefill", INPUTS)
PACK = in_release("KVIndexTranslator.pack_read_stream", TRANSLATOR)
SOURCE = in_release("KVIndexTranslator.read_source", TRANSLATOR)
TABLE_OF_ROWS = in_release("KVIndexTranslator._passthrough_table", TRANSLATOR)


def rotate_prefill_input_ids(
    input_ids: "torch.Tensor", extend_lens: "torch.Tensor", tail_tokens: "torch.Tensor"
) -> "torch.Tensor":
    """Shift each prompt left by one and append its tail token; the call ends where SGLang would run the draft model."""
    batch = SimpleNamespace(
        forward_mode=SimpleNamespace(is_idle=lambda: False),
        chunked_req_next_prompt_token=None,
        input_ids=input_ids,
        extend_lens=extend_lens.tolist(),
    )
    try:
        engine().get(PREFILL)(SimpleNamespace(), batch, None, tail_tokens)
    except Rotated:
        rotated: torch.Tensor = batch.input_ids
        return rotated
    raise ValueError("the draft-extend of a prefill ended before it made its input")


def prepare_for_extend_to_fill_draft_kvcache(
    seq_lens: "torch.Tensor", num_accepted_tokens: "torch.Tensor", num_draft_tokens: int
) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    """Lay out a draft-extend of fixed width; SGLang selects rows where it reads the tokens, which are zeros here."""
    _, _, forward_seq_lens, (positions, _, _) = engine().get(LAYOUT)(seq_lens, num_draft_tokens, False)
    tokens = num_accepted_tokens.new_zeros(len(seq_lens) * num_draft_tokens)
    _, select_index, _ = engine().get(SELECT)(num_accepted_tokens, tokens, num_draft_tokens)
    return positions, forward_seq_lens.long(), select_index


def generate_attn_arg_prefill(
    req_pool_indices: "torch.Tensor",
    req_to_token: "torch.Tensor",
    kv_lens: "torch.Tensor",
    num_accepted_tokens: "torch.Tensor",
    kv_lens_sum: int,
) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    """Lay out a draft-extend; its requests have one number of queries in SGLang, so each number makes a call."""
    import torch

    qo_lens, kept = torch.zeros_like(num_accepted_tokens), torch.zeros_like(num_accepted_tokens)
    slots: list[torch.Tensor] = [req_to_token.new_empty(0)] * len(num_accepted_tokens)
    for num_tokens in sorted(set(num_accepted_tokens.tolist())):
        members = (num_accepted_tokens == num_tokens).nonzero().flatten()
        extend = SimpleNamespace(num_correct_drafts=members, num_tokens_per_req=num_tokens)
        kv_indices, kv_indptr, qo_indptr, _ = engine().get(EXTEND)(
            extend,
            req_pool_indices=req_pool_indices[members].contiguous(),
            paged_kernel_lens=kv_lens[members].contiguous(),
            paged_kernel_lens_sum=kv_lens_sum,
            translator=_translator(req_to_token),
            plan=None,
        )
        qo_lens[members], kept[members] = qo_indptr.diff(), kv_indptr.diff()
        bounds = kv_indptr.tolist()
        for place, request in enumerate(members.tolist()):
            slots[request] = kv_indices[bounds[place] : bounds[place + 1]]
    listed = torch.cat(slots) if slots else req_to_token.new_empty(0)
    kv_indices = req_to_token.new_zeros(kv_lens_sum)
    kv_indices[: len(listed)] = listed
    return _offsets(qo_lens), _offsets(kept), kv_indices


def verify_custom_mask_metadata(
    req_pool_indices: "torch.Tensor",
    req_to_token: "torch.Tensor",
    seq_lens: "torch.Tensor",
    tree_mask: "torch.Tensor",
    num_draft_tokens: int,
    seq_lens_sum: int,
) -> "tuple[torch.Tensor, ...]":
    """Lay out one pass over prefix and window; of a mask that is longer than the call SGLang returns all."""
    verify = SimpleNamespace(draft_token_num=num_draft_tokens, custom_mask=tree_mask)
    kv_indices, kv_indptr, qo_indptr, custom_mask = engine().get(VERIFY)(
        verify,
        req_pool_indices=req_pool_indices,
        paged_kernel_lens=seq_lens,
        paged_kernel_lens_sum=seq_lens_sum,
        translator=_translator(req_to_token),
        plan=None,
    )
    num_entries = num_draft_tokens * (seq_lens_sum + num_draft_tokens * len(seq_lens))
    return qo_indptr, kv_indptr, kv_indices, custom_mask[:num_entries]


def _translator(req_to_token: "torch.Tensor") -> Any:
    """Return SGLang's translator of a plain pool, whose slots are the numbers in the request rows."""
    translator = SimpleNamespace(req_to_token=req_to_token, _reads_translated=lambda _: False)
    for definition in (PACK, SOURCE, TABLE_OF_ROWS):
        setattr(translator, definition.name.partition(".")[2], partial(engine().get(definition), translator))
    return translator


def _offsets(lengths: "torch.Tensor") -> "torch.Tensor":
    import torch

    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int()


TABLE = (
    Adapted(rotate_prefill_input_ids, (PREFILL, TAIL_TOKENS)),
    Adapted(prepare_for_extend_to_fill_draft_kvcache, (LAYOUT, SELECT)),
    Adapted(generate_attn_arg_prefill, (EXTEND, PACK, SOURCE, TABLE_OF_ROWS)),
    Adapted(verify_custom_mask_metadata, (VERIFY, PACK, SOURCE, TABLE_OF_ROWS)),
)
