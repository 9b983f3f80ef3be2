"""What a worker tells of the tokens that it outputs."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.operations.protocol import Operations
from specsim.reference.worker.choices import ChoiceRows
from specsim.reference.worker.sampling import distribution_logits
from specsim.simulation.logprobs import Reported, listed_tokens, most_top, reported_of
from specsim.simulation.models.batches import TargetOutput


def tell(
    row: Array,
    output: TargetOutput[Array],
    accept_index: Array,
    predict: Array,
    choices: ChoiceRows,
    operations: Operations[Array],
) -> Reported:
    """Tell of the output tokens what their requests ask for: scores, and hidden states of the rows they came from.

    Parameters
    ----------
    row : int64 [request]
        Row of each request.
    output : TargetOutput
        The logits that the tokens were chosen from, as processor and grammar left them, and hidden states for users.
    accept_index : int32 [request, draft+1]
        Accepted paths, before anything is compacted.
    predict : int32 [request*node]
        Output token that follows each accepted node.

    Notes
    -----
    Source: semantics C.8.
    """
    asked = choices.of(row)
    num_top, states = most_top(asked), output.reported_states
    scored = None
    if num_top is not None:
        is_original = np.array([choice.has_original_logprobs for choice in asked])
        temperature = choices.parameters(row)["temperature"]
        scored = operations.gather_output_logprobs(
            logits=distribution_logits(output),
            accept_index=accept_index,
            predict=predict,
            temperature=np.where(is_original, np.float32(1), temperature),
            token_ids=listed_tokens(asked),
            num_top=num_top,
        )
    if states is not None:
        states = states[np.maximum(accept_index.reshape(-1), 0)]
    return reported_of(asked, accept_index, predict, scored, states)
