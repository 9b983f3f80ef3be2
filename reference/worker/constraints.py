"""What is done with logits before a token is chosen: a request's own processor, then the mask of its grammar."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.host.choice import TokenChoice
from specsim.host.grammar import BITS_PER_WORD, allow_everything
from specsim.simulation.models.batches import TargetOutput
from specsim.topology import NONE


def constrain(
    output: TargetOutput[Array],
    tokens: Array,
    next_token: Array,
    next_sibling: Array,
    choices: Sequence[TokenChoice],
    operations: CallsByName,
) -> TargetOutput[Array]:
    """Return the logits of a batch of trees as its requests want them; those of the model are left as they are.

    Parameters
    ----------
    tokens, next_token, next_sibling : int64 [request, node]
        Token of each node, first child and next sibling.
    choices : sequence of TokenChoice
        One a request; its matcher has read everything up to the root.

    Notes
    -----
    Source: semantics B.4, B.5.
    """
    if not any(choice.is_constrained for choice in choices):
        return output
    num_nodes, processors = tokens.shape[1], [choice.processor for choice in choices]
    vocab_size = output.logits.shape[1]
    vocab_mask = allow_everything(tokens.size, vocab_size)
    for request, choice in enumerate(choices):
        if choice.matcher is not None:
            operations.traverse_tree(
                next_token[request].tolist(),
                next_sibling[request].tolist(),
                tokens[request].tolist(),
                choice.matcher,
                vocab_mask[request * num_nodes : (request + 1) * num_nodes],
                vocab_size,
            )
    is_allowed = allowed_tokens(vocab_mask, vocab_size)

    def constrained(logits: Array) -> Array:
        changed = logits.copy()
        operations.apply_logit_processors(changed, processors, num_nodes)
        lowest = np.iinfo(logits.dtype).min if logits.dtype.kind == "i" else -np.inf
        masked: Array = np.where(is_allowed, changed, np.array(lowest, dtype=logits.dtype))
        return masked

    return replace(
        output,
        logits=constrained(output.logits),
        sampling_logits=None if output.sampling_logits is None else constrained(output.sampling_logits),
    )


def constrain_first(
    output: TargetOutput[Array], choices: Sequence[TokenChoice], operations: CallsByName
) -> TargetOutput[Array]:
    """Return the logits after prompts, one row a request, as its requests want them."""
    alone = np.full((len(choices), 1), NONE, dtype=np.int64)
    return constrain(output, np.zeros_like(alone), alone, alone, choices, operations)


def allowed_tokens(vocab_mask: Array, vocab_size: int) -> Array:
    """Return bool [row, vocab] of packed rows."""
    bits = (vocab_mask[:, :, None] >> np.arange(BITS_PER_WORD, dtype=np.int32)) & 1
    is_allowed: Array = bits.reshape(len(vocab_mask), -1)[:, :vocab_size].astype(np.bool_)
    return is_allowed
