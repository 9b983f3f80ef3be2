"""What draws may share by each rule: total variations of shared and reused noise, number by number, from keys alone."""

import time
from dataclasses import replace
from fractions import Fraction

import pytest

from specsim.conformance.backend import load
from specsim.host.noise import stream_key
from specsim.properties.host.noise.keyed_walks import (
    Keys,
    block_verification,
    expected_law,
    law_of_keys,
    rejection_sampling,
    require_law_of_keys,
    sampled_verify,
)
from specsim.properties.host.noise.races import total_variation
from specsim.properties.host.noise.strategy import KeyedScene
from specsim.properties.suite.catalogue import property_named

REFERENCE = load("specsim.reference")


def row(*shares):
    return tuple(Fraction(str(share)) for share in shares)


def third(one, two):
    return Fraction(one, 3), Fraction(two, 3)


FRESHNESS = KeyedScene(
    {(): row(0.5, 0.5), (0,): row(0.75, 0.25), (1,): row(0.25, 0.75)},
    {(): third(2, 1), (0,): row(0.5, 0.5), (1,): row(0.9, 0.1)},
    num_drafts=2,
    horizon=2,
    by_coin=True,
)
LAGGED = replace(FRESHNESS, lengths=(1, 0))


def alone(target, proposal, **options):
    """Return a scene of one draft whose next token has the same two rows whatever the first is."""
    prefixes = [(), *((token,) for token in range(len(target)))]
    return KeyedScene(dict.fromkeys(prefixes, target), dict.fromkeys(prefixes, proposal), 1, 2, **options)


def by_position(*purposes):
    """Return keys of which some purposes have the position alone."""

    def key(purpose, seed, position, column=0, epoch=0):
        return stream_key(purpose, seed, position, *((0, 0) if purpose in purposes else (column, epoch)))

    return key


def as_the(other, purpose, by=0):
    """Return keys of which one purpose reads the noise of another, at another position."""

    def key(one, seed, position, column=0, epoch=0):
        return (
            stream_key(other, seed, position + by) if one == purpose else stream_key(one, seed, position, column, epoch)
        )

    return key


def variation(rule, scene, key):
    return total_variation(law_of_keys(rule, (scene,), Keys(key)), expected_law((scene,)))


@pytest.mark.parametrize(
    ("rule", "scene", "reused", "expected"),
    [
        (block_verification, FRESHNESS, (), "0"),
        (block_verification, FRESHNESS, ("accept",), "1/24"),
        (block_verification, FRESHNESS, ("draft",), "1/216"),
        (block_verification, FRESHNESS, ("draft", "accept"), "1/24"),
        (rejection_sampling, FRESHNESS, (), "0"),
        (rejection_sampling, FRESHNESS, ("accept",), "0"),
        (rejection_sampling, FRESHNESS, ("draft",), "0"),
        (rejection_sampling, FRESHNESS, ("draft", "accept"), "0"),
        (rejection_sampling, LAGGED, (), "0"),
        (rejection_sampling, LAGGED, ("accept",), "0"),
        (rejection_sampling, LAGGED, ("draft",), "1/432"),
        (rejection_sampling, replace(LAGGED, is_coupled=True), ("draft",), "0"),
        (rejection_sampling, replace(LAGGED, is_coupled=True), (), "0"),
        (sampled_verify, FRESHNESS, ("draft", "accept"), "0"),
    ],
)
def test_noise_that_is_reused_in_the_next_iteration(rule, scene, reused, expected):
    assert str(variation(rule, scene, by_position(*reused))) == expected
    by_race = replace(scene, by_coin=False)
    assert bool(variation(rule, by_race, by_position(*reused))) == (expected != "0"), "by races no other pair is off"


SHARED_RECOVERY = alone(row(0.1, 0.6, 0.3), row(0.6, 0.2, 0.2))


def first_token(rule, scene, key):
    law = law_of_keys(rule, (scene,), Keys(key))
    return [sum(share for output, share in law.items() if output[0] == token) for token in range(3)]


def test_a_recovery_on_the_drafts_noise_is_named_exactly_within_a_second():
    start = time.perf_counter()
    with pytest.raises(AssertionError) as failure:
        require_law_of_keys(as_the("token", "draft"), rejection_sampling, SHARED_RECOVERY)
    assert time.perf_counter() - start < 1
    message = str(failure.value)
    assert "one noise is that of draft of seed 0 at 0, draft 0 of iteration 0 and token of seed 0 at 0" in message
    assert "total variation " in message
    assert [*map(str, first_token(rejection_sampling, SHARED_RECOVERY, as_the("token", "draft")))] == [
        "1/10",
        "51/80",
        "21/80",
    ]


def test_a_bonus_on_the_last_drafts_noise_shows_in_two_tokens_only():
    scene = alone(row(0.5, 0.3, 0.2), row(0.6, 0.3, 0.1))
    key = as_the("token", "draft", by=1)
    assert first_token(rejection_sampling, scene, key) == [*row(0.5, 0.3, 0.2)]
    law = law_of_keys(rejection_sampling, (scene,), Keys(key))
    second = [sum(share for output, share in law.items() if output[1] == token) for token in range(3)]
    assert law != expected_law((scene,))
    # NOTE: after draft 0, which is accepted with chance 5/6, the bonus is 0 with chance 5/6.
    assert law[0, 0] == Fraction(1, 2) * Fraction(5, 6)
    assert second != [*row(0.5, 0.3, 0.2)], "acceptance depends on the draft, so that the mixture is off as well"


def test_a_coin_that_accepts_and_draws():
    scene = replace(SHARED_RECOVERY, by_coin=True)
    got = first_token(rejection_sampling, scene, as_the("final", "accept"))
    assert got == [*row(0.1, 0.58, 0.32)]


@pytest.mark.parametrize(("purpose", "by"), [("draft", 0), ("draft", 1), ("accept", 0)])
def test_sampled_verify_may_share_all_noise_with_the_draft(purpose, by):
    for scene in (FRESHNESS, SHARED_RECOVERY):
        require_law_of_keys(as_the("token", purpose, by), sampled_verify, scene)


def test_a_coin_from_a_race_is_named_without_a_law():
    with pytest.raises(AssertionError) as failure:
        require_law_of_keys(as_the("token", "accept"), rejection_sampling, SHARED_RECOVERY)
    assert "one noise is that of accept of seed 0 at 0, draft 0 of iteration 0 and token of seed 0 at 0" in str(
        failure.value
    )


@pytest.mark.parametrize("rule", [rejection_sampling, sampled_verify])
def test_two_requests_on_one_stream_depend_on_each_other(rule):
    scenes = SHARED_RECOVERY, replace(SHARED_RECOVERY, seed=1)
    require_law_of_keys(stream_key, rule, *scenes)
    together = law_of_keys(rule, scenes, Keys(lambda purpose, seed, *rest: stream_key(purpose, 0, *rest)))
    if rule is sampled_verify:
        assert all(output[:2] == output[2:] for output in together), "both requests output the same"
    assert together != expected_law(scenes)


def test_columns_make_keys_fresh_without_a_counter_of_iterations():
    """A position is drafted again at a smaller column, because the length has grown."""

    def key(purpose, seed, position, column=0, epoch=0):
        return stream_key(purpose, seed, position, column)

    for rule, scene in ((block_verification, FRESHNESS), (rejection_sampling, LAGGED)):
        require_law_of_keys(key, rule, scene)


def test_keys_that_have_no_hash_are_refused_by_name():
    with pytest.raises(AssertionError, match="key of a draw = list, but should be hashable"):
        require_law_of_keys(lambda *parts: [*parts], rejection_sampling, FRESHNESS)


def test_a_module_may_bring_its_own_keys():
    own = REFERENCE.with_function("stream_key", lambda *parts: ("mine", *parts), "own")
    property_named("noise.rejection_on_its_keys_emits_the_targets_law").law(own, SHARED_RECOVERY)
