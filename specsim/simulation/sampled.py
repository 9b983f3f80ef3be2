"""Sampled requests of the simulated models: who can be sampled, and the exact distribution of the next token."""

from collections.abc import Sequence
from fractions import Fraction

from specsim.hashing import DEEPEST_SAMPLE, GOLDEN, digest, mix
from specsim.host.sampling import SamplingParameters
from specsim.rejection import Reason, check_range, contradiction
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.models.ground_truth import Prefix
from specsim.simulation.models.hash_model import HashModel

LARGEST_DYADIC_VOCABULARY = DEEPEST_SAMPLE + 1


def check_sampling(model: ModelDescription, sampling: SamplingParameters | None) -> None:
    """Check that a model can decode a request.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: a sampled request for a model without logits for sampling.
    """
    if sampling is None or sampling.is_greedy or model.has_sampling_logits:
        return
    raise contradiction(
        "sampling.temperature", sampling.temperature, "0", f"{model.name} has no logits that can be sampled from"
    )


def next_shares(model: HashModel, tokens: Sequence[int]) -> tuple[Fraction, ...]:
    """Return the exact distribution of the token after a prefix at temperature ``1/ln 2``: powers of 2.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: a vocabulary beyond 21 tokens, where the powers do not add up to 1.
    """
    because = "the powers of 2 add up to 1"
    check_range(Reason.COUNT_OUT_OF_RANGE, "vocab_size", model.vocab_size, because, most=LARGEST_DYADIC_VOCABULARY)
    prefix = Prefix(model, tokens)
    state = digest(prefix.folds) + model.seed
    keys = [((mix(state + (token + 1) * GOLDEN) & 0x3FFFFF), token) for token in range(model.vocab_size)]
    shares = [Fraction(0)] * model.vocab_size
    for place, (_, token) in enumerate(sorted(keys, reverse=True)):
        shares[token] = Fraction(1, 2 ** min(place + 1, model.vocab_size - 1))
    return tuple(shares)
