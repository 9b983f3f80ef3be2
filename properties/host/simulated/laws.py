"""Laws of simulated acceptance: counts lie on a path, and on average meet the mean."""

from fractions import Fraction

from specsim.conformance.backend import Backend
from specsim.properties.host.simulated.strategy import SHARES, expected_draws, normal_draws
from specsim.properties.laws.checks import for_each, require, require_equal, state


def match_expected_meets_the_mean(backend: Backend, case: tuple[float, int]) -> None:
    """Over evenly spread samples the counts are the neighbours of the mean and average to it; 0 or less is off."""
    mean, num_steps = case
    draw = backend.host("simulated_num_tokens")
    counts = [draw(mean, num_steps, "match-expected", place / SHARES) for place in range(SHARES)]
    if mean <= 0:
        require(counts == [None] * SHARES, "num_tokens", counts, "None, because simulation is off")
        return
    aimed = min(max(Fraction(mean), Fraction(1)), Fraction(num_steps + 1))
    outside = [count for count in counts if not 1 <= count <= num_steps + 1 or abs(count - aimed) >= 1]
    require(not outside, "num_tokens", outside, f"a neighbour of {aimed}, 1 to {num_steps + 1}")
    require_equal("mean of num_tokens", Fraction(sum(counts), SHARES), aimed)


def multinomial_rounds_to_a_path(backend: Backend, case: tuple[float, int, float]) -> None:
    """A count is the whole number nearest to mean and sample together, at least 1 and at most a path."""
    mean, num_steps, sample = case
    got = backend.host("simulated_num_tokens")(mean, num_steps, "multinomial", sample)
    if mean <= 0:
        require(got is None, "num_tokens", got, "None, because simulation is off")
        return
    aimed = min(max(mean + sample, 1.0), num_steps + 1.0)
    require(isinstance(got, int) and 1 <= got <= num_steps + 1, "num_tokens", got, f"1 to {num_steps + 1}")
    require(abs(got - aimed) <= 0.5, "num_tokens", got, f"nearest to {aimed}")


PROPERTIES = (
    state("simulated", for_each(match_expected_meets_the_mean), expected_draws, ("simulated_num_tokens",)),
    state("simulated", for_each(multinomial_rounds_to_a_path), normal_draws, ("simulated_num_tokens",)),
)
