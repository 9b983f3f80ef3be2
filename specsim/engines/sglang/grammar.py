"""Grammar masks of trees, and the logits that they and penalties are applied to."""

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

from specsim.engines.adapter import Adapted
from specsim.engines.sglang.release import engine, in_release
from specsim.host.grammar import BITS_PER_WORD, EVERYTHING, Grammar, TableGrammar

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

SPEC_UTILS = "srt.speculative.spec_utils"
BATCH_INFO = "srt.sampling.sampling_batch_info"
BITMASK = in_release("generate_token_bitmask", SPEC_UTILS)
TRAVERSE = in_release("traverse_tree", SPEC_UTILS)
APPLY = in_release("SamplingBatchInfo.apply_logits_bias", BATCH_INFO)
BEFORE = in_release("SamplingBatchInfo._apply_pre_grammar_logits_transforms", BATCH_INFO)
AFTER = in_release("SamplingBatchInfo._apply_post_grammar_logits_transforms", BATCH_INFO)
MASK_LOGITS = in_release("apply_token_bitmask_inplace_triton", "kernels.ops.grammar.bitmask_ops")


class Matcher:
    """A grammar of ours with the methods that SGLang calls."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self.accept_token = grammar.accept
        self.rollback = grammar.rollback
        self.is_terminated = grammar.is_terminated

    def fill_vocab_mask(self, mask: "torch.Tensor", row: int) -> None:
        """Write the allowed tokens of a row, in the memory of the mask."""
        self._grammar.fill_bitmask(mask[row].numpy())

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: str) -> "torch.Tensor":
        """Return a mask that allows everything, as xgrammar does."""
        import torch

        return torch.full((batch_size, -(-vocab_size // BITS_PER_WORD)), EVERYTHING, dtype=torch.int32, device=device)


def generate_token_bitmask(
    transitions: "torch.Tensor",
    is_terminated: "torch.Tensor",
    candidates: "torch.Tensor",
    retrieve_next_token: "torch.Tensor",
    retrieve_next_sibling: "torch.Tensor",
    grammar_state: "torch.Tensor",
) -> "torch.Tensor":
    """Walk each tree with its request's grammar on the host; a batch without grammars has no mask in SGLang."""
    table, ends, vocab_size = transitions.cpu().numpy(), is_terminated.cpu().numpy(), transitions.shape[1]
    matchers = [Matcher(TableGrammar(table, ends, state)) if state >= 0 else None for state in grammar_state.tolist()]
    trees = (links.cpu() for links in (retrieve_next_token, retrieve_next_sibling, candidates))
    mask, _ = engine().get(BITMASK)([SimpleNamespace(grammar=one) for one in matchers], *trees, vocab_size)
    width = -(-vocab_size // BITS_PER_WORD)
    if mask is None:
        return transitions.new_full((candidates.numel(), width), EVERYTHING)
    on_device: torch.Tensor = mask.to(transitions.device)
    return on_device


def traverse_tree(
    next_token: Sequence[int],
    next_sibling: Sequence[int],
    tokens: Sequence[int],
    grammar: Grammar,
    bitmask: "NDArray[np.int32]",
    vocab_size: int,
) -> None:
    """Walk a tree with a matcher."""
    import torch

    trees = (torch.tensor(links, dtype=torch.int64) for links in (next_token, next_sibling, tokens))
    engine().get(TRAVERSE)(*trees, Matcher(grammar), torch.from_numpy(bitmask), vocab_size)


def prepare_logits(
    logits: "torch.Tensor",
    scaling_penalty: "torch.Tensor | None",
    additive_penalty: "torch.Tensor | None",
    logit_bias: "torch.Tensor | None",
    vocab_mask: "torch.Tensor | None",
    num_draft_tokens: int,
) -> "torch.Tensor":
    """Apply penalties, mask and bias to logits of float32; SGLang repeats what a request has for each of its nodes."""

    def repeated(of_request: "torch.Tensor | None") -> "torch.Tensor | None":
        return None if of_request is None else of_request.repeat_interleave(num_draft_tokens, dim=0)

    def mask(rows: "torch.Tensor") -> None:
        engine().get(MASK_LOGITS)(rows, vocab_mask)

    info = SimpleNamespace(
        acc_additive_penalties=repeated(additive_penalty),
        acc_scaling_penalties=repeated(scaling_penalty),
        penalizer_orchestrator=None,
        logit_bias=repeated(logit_bias),
        grammar_mask=None if vocab_mask is None else SimpleNamespace(apply=mask),
    )
    info._apply_pre_grammar_logits_transforms = partial(engine().get(BEFORE), info)
    info._apply_post_grammar_logits_transforms = partial(engine().get(AFTER), info)
    prepared = logits.float().clone()
    engine().get(APPLY)(info, prepared)
    return prepared


TABLE = (
    Adapted(generate_token_bitmask, (BITMASK, TRAVERSE)),
    Adapted(traverse_tree, (TRAVERSE,)),
    Adapted(prepare_logits, (APPLY, BEFORE, AFTER, MASK_LOGITS)),
)
