"""Laws of random streams: which draws share their noise, from an implementation's own keys, without a sample.

Verification is played on the keys that an implementation gives its draws: those that are equal share their noise, all
others are independent, and the law of the output follows in rational numbers. What two draws may share depends on the
rule of acceptance, so that each has a property of its own.
"""

from itertools import pairwise

from specsim.conformance.backend import Backend
from specsim.properties.host.noise import keyed_walks
from specsim.properties.host.noise.strategy import Key, KeyedScene, blocks, keyed_scenes, keys, lagged_scenes, pairs
from specsim.properties.laws.checks import require, states

NEIGHBOURS = 1024
"""Neighbouring tokens whose numbers are looked at."""


def rejection_on_its_keys_emits_the_targets_law(backend: Backend, scene: KeyedScene) -> None:
    """Drafts that are accepted one by one, and what is drawn after them, have the target's law over two iterations."""
    keyed_walks.require_law_of_keys(backend.host("stream_key"), keyed_walks.rejection_sampling, scene)


def block_verification_on_its_keys_emits_the_targets_law(backend: Backend, scene: KeyedScene) -> None:
    """Drafts judged as a block read noise that no later iteration reads again."""
    keyed_walks.require_law_of_keys(backend.host("stream_key"), keyed_walks.block_verification, scene)


def sampled_verify_on_its_keys_emits_the_targets_law(backend: Backend, scene: KeyedScene) -> None:
    """The target's own draws have its law token after token, whatever noise drafts are drawn on."""
    keyed_walks.require_law_of_keys(backend.host("stream_key"), keyed_walks.sampled_verify, scene)


def lagged_schedules_on_their_keys_emit_the_targets_law(backend: Backend, scene: KeyedScene) -> None:
    """Where drafts decide how many of the next ones are verified, these are drawn on fresh noise."""
    keyed_walks.require_law_of_keys(backend.host("stream_key"), keyed_walks.rejection_sampling, scene)


def requests_of_distinct_seeds_are_independent(backend: Backend, scenes: tuple[KeyedScene, KeyedScene]) -> None:
    """Of two requests with one prompt and different seeds the targets' draws have the product of their laws."""
    keyed_walks.require_law_of_keys(backend.host("stream_key"), keyed_walks.sampled_verify, *scenes)


def drafts_of_distinct_seeds_are_judged_independently(backend: Backend, scenes: tuple[KeyedScene, KeyedScene]) -> None:
    """Where drafts are accepted one by one, two requests with one prompt have the product of their laws."""
    keyed_walks.require_law_of_keys(backend.host("stream_key"), keyed_walks.rejection_sampling, *scenes)


def a_key_is_a_function_of_what_it_is_made_of(backend: Backend, parts: Key) -> None:
    """Asked again, for other draws in between, the key of a draw and its numbers are the same."""
    stream_key, uniform = backend.host("stream_key"), backend.host("stream_uniform")
    key, first = stream_key(*parts), uniform(stream_key(*parts), 1)
    uniform(stream_key(parts[0], parts[1] ^ 1, *parts[2:]), 0)
    require(stream_key(*parts) == key, f"key of {parts}", stream_key(*parts), key)
    require(uniform(key, 1) == first, f"number of token 1 of {parts}", uniform(key, 1), first)


def numbers_of_a_stream_are_uniform(backend: Backend, parts: Key) -> None:
    """The numbers of neighbouring tokens lie strictly between 0 and 1, are spread evenly, and do not repeat."""
    uniform, key = backend.host("stream_uniform"), backend.host("stream_key")(*parts)
    numbers = [float(uniform(key, token)) for token in range(NEIGHBOURS)]
    outside = [number for number in numbers if not 0 < number < 1]
    require(not outside, f"numbers of {parts}", outside[:1], "above 0 and below 1")
    repeated = [one for one, other in pairwise(sorted(numbers)) if one == other]
    require(len(repeated) <= NEIGHBOURS // 256, f"numbers of {parts} that two tokens have", len(repeated), "hardly any")
    # NOTE: by Dvoretzky, Kiefer and Wolfowitz, an even spread is further off once in 10**12 streams.
    furthest = max(abs((place + 0.5) / NEIGHBOURS - number) for place, number in enumerate(sorted(numbers)))
    require(furthest < 0.118, f"distance of the numbers of {parts} from an even spread", furthest, "below 0.118")


_KEY, _BOTH = ("stream_key",), ("stream_key", "stream_uniform")

PROPERTIES = states(
    "noise",
    (rejection_on_its_keys_emits_the_targets_law, keyed_scenes, _KEY, "P09"),
    (block_verification_on_its_keys_emits_the_targets_law, blocks, _KEY, "P09"),
    (sampled_verify_on_its_keys_emits_the_targets_law, keyed_scenes, _KEY, "P09"),
    (lagged_schedules_on_their_keys_emit_the_targets_law, lagged_scenes, _KEY, "P09"),
    (requests_of_distinct_seeds_are_independent, pairs, _KEY, "P10"),
    (drafts_of_distinct_seeds_are_judged_independently, pairs, _KEY, "P10"),
    (a_key_is_a_function_of_what_it_is_made_of, keys, _BOTH, "P10"),
    (numbers_of_a_stream_are_uniform, keys, _BOTH, "P09"),
)
