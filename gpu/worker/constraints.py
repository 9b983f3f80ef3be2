"""What is done with logits before a token is chosen: a request's own processor, then the mask of its grammar.

Both are functions of the host, so that a batch with one of them waits for its trees and cannot be one graph.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from specsim.gpu.worker.transfer import download, send
from specsim.host.choice import TokenChoice
from specsim.host.grammar import BITS_PER_WORD, allow_everything, traverse_tree
from specsim.host.processors import apply_logit_processors
from specsim.phases import VerifyInput
from specsim.simulation.models.batches import TargetOutput
from specsim.topology import NONE


def constrain(
    output: TargetOutput[Tensor],
    tokens: Tensor,
    next_token: Tensor,
    next_sibling: Tensor,
    choices: Sequence[TokenChoice],
) -> None:
    """Change the logits of a batch of trees, in place, as its requests want them (semantics B.4, B.5).

    ``tokens`` and links are int64 [request, node]; there is a choice for each of the first requests, padding has none.
    """
    num_requests, num_nodes = tokens.shape
    processors = [choice.processor for choice in choices] + [None] * (num_requests - len(choices))
    written = [output.logits] if output.sampling_logits is None else [output.logits, output.sampling_logits]
    for logits in written:
        apply_logit_processors(logits, processors, num_nodes)
    if all(choice.matcher is None for choice in choices):
        return
    vocab_size = output.logits.shape[1]
    vocab_mask = allow_everything(num_requests * num_nodes, vocab_size)
    children, siblings, ids = (one.tolist() for one in download([next_token, next_sibling, tokens]))
    for request, choice in enumerate(choices):
        if choice.matcher is not None:
            rows = vocab_mask[request * num_nodes : (request + 1) * num_nodes]
            traverse_tree(children[request], siblings[request], ids[request], choice.matcher, rows, vocab_size)
    is_forbidden = ~allowed_tokens(send(vocab_mask, output.logits.device), vocab_size)
    for logits in written:
        lowest = -torch.inf if logits.is_floating_point() else torch.iinfo(logits.dtype).min
        logits.masked_fill_(is_forbidden, lowest)


def constrain_trees(output: TargetOutput[Tensor], phase: VerifyInput, choices: Sequence[TokenChoice]) -> None:
    """Change the logits of what is verified, in place."""
    links = (phase.retrieve_next_token, phase.retrieve_next_sibling)
    constrain(output, phase.draft_token.view(phase.retrieve_index.shape), *links, choices)


def constrain_first(output: TargetOutput[Tensor], choices: Sequence[TokenChoice]) -> None:
    """Change the logits after prompts, one row a request, in place."""
    alone = torch.full((len(choices), 1), NONE, dtype=torch.int64)
    constrain(output, torch.zeros_like(alone), alone, alone, choices)


def allowed_tokens(vocab_mask: Tensor, vocab_size: int) -> Tensor:
    """Return bool [row, vocab] of packed rows."""
    place = torch.arange(BITS_PER_WORD, dtype=torch.int32, device=vocab_mask.device)
    bits = (vocab_mask[:, :, None] >> place) & 1
    return bits.flatten(1)[:, :vocab_size].bool()
