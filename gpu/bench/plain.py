"""Operations that one line of torch computes as well, by the row of the bench that it holds for."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.nn.functional import normalize, pad

Line = Callable[..., Any]


def _softmax(logits: Tensor, temperature: Tensor, num_draft_tokens: int, **filters: Tensor) -> Tensor:
    return logits.float().div(temperature.repeat_interleave(num_draft_tokens)[:, None]).softmax(-1)


def _keep(probabilities: Tensor, min_p: Tensor) -> Tensor:
    is_kept = probabilities >= min_p[:, None] * probabilities.amax(-1, keepdim=True)
    return normalize(probabilities.where(is_kept, 0.0), p=1, dim=-1)


def _compact(values: Tensor, accept_index: Tensor) -> Tensor:
    padding = len(values) // len(accept_index) - accept_index.shape[1]
    return values[pad(accept_index.clamp(min=0), (0, padding)).view(-1)]


def _move(kv_buffers: tuple[Tensor, ...], target_slots: Tensor, source_slots: Tensor) -> None:
    for buffer in kv_buffers:
        buffer[target_slots] = buffer[source_slots]


PLAIN: Mapping[tuple[str, str], Line] = {
    ("fast_topk", ""): lambda values, k: tuple(values.topk(k)),
    ("map_hot_tokens", ""): lambda topk_index, hot_token_id: hot_token_id[topk_index],
    ("per_step_draft_out_cache_loc", ""): (
        lambda out_cache_loc, topk, num_steps: out_cache_loc.view(-1, num_steps).t().contiguous()
    ),
    ("argmax_target_predict", "float32"): lambda logits: logits.argmax(-1),
    ("min_p_renorm", "p 0.05"): _keep,
    ("target_probabilities", "bf16, temperature alone"): _softmax,
    ("gather_accept_tokens", ""): (
        lambda predict, accept_index: predict[accept_index.clamp(min=0)] * (accept_index >= 0)
    ),
    ("fill_bonus_tokens", ""): (
        lambda accept_tokens, num_accepted_tokens: accept_tokens.gather(1, num_accepted_tokens[:, None].long() - 1)[
            :, 0
        ]
    ),
    ("compact_accepted_to_front", "hidden states"): _compact,
    ("move_kv_cache", "accepted nodes"): _move,
    ("translate_move_slots", ""): (
        lambda target_slots, source_slots, full_to_swa: (full_to_swa[target_slots], full_to_swa[source_slots])
    ),
    ("select_last_verified", ""): lambda num_accepted_tokens: num_accepted_tokens.cumsum(0) - 1,
}
"""The line by operation and kind of the row; nothing is checked in it, and its ties may fall otherwise."""
