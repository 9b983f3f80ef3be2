"""Numbers that are drawn entry by entry, and what one byte of a buffer changes."""

from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from specsim.operations import RECORDS
from specsim.properties import strategies
from specsim.properties.operations.compact import laws as compact
from specsim.properties.operations.draft import laws as draft
from specsim.properties.operations.extend import laws as extend
from specsim.properties.operations.models.forwards import scenes
from specsim.properties.operations.verify import laws as verify
from specsim.properties.strategies.arrays import seeded
from specsim.properties.strategies.numbers import MOST_BYTES, DrawnNumbers
from specsim.validation.checking import check_call
from tests.quality import test_discovery, test_discovery_pools, test_discovery_sampling, test_discovery_trees
from tests.quality.pool import Pool

FEW = 4
"""Entries that a byte changes at most, most often: one, and what is derived from it."""

ZEROS = bytes(1 << 15)


def numbers_of(given_bytes):
    """Return numbers that are drawn from some bytes, and then from zeros."""
    left = bytearray(given_bytes)

    def draw(strategy):
        count = strategy.wrapped_strategy.min_size
        taken = bytes(left[:count]).ljust(count, b"\0")
        del left[:count]
        return taken

    return DrawnNumbers(draw)


@pytest.mark.parametrize("numbers", [numbers_of(b""), seeded(0)])
def test_zeros_give_the_least_and_no_other_order(numbers):
    assert numbers.integers((2, 3), -5, 7).tolist() == [[-5] * 3] * 2
    assert numbers.integers(1, -(2**63), 2**63 - 1).tolist() == [-(2**63)]
    assert numbers.order(5).tolist() == [0, 1, 2, 3, 4]


def test_an_entry_has_as_many_bytes_as_its_range():
    numbers = numbers_of(bytes([7, 255, 1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 9]))
    assert numbers.integers(2, 10, 14).tolist() == [12, 10]
    assert numbers.integers(1, -1, 2**16 - 2).tolist() == [2**8 - 1]
    assert numbers.integers(1, -(2**63), 2**63 - 1).tolist() == [2**63 - 1]
    assert numbers.integers(1, 3, 3).tolist() == [3]
    assert numbers.integers(1, 0, 9).tolist() == [9]


def test_one_byte_moves_three_of_an_order():
    given_bytes, plain = bytes(range(3, 103)), numbers_of(range(3, 103)).order(100)
    assert sorted(plain.tolist()) == list(range(100))
    for place in range(100):
        other = bytearray(given_bytes)
        other[place] ^= 16
        moved = (numbers_of(other).order(100) != plain).sum()
        assert moved <= 3


def test_bytes_stand_for_more_entries_when_they_are_used_up():
    count, one = 5 * MOST_BYTES, bytearray(MOST_BYTES)
    one[7] = 100
    changed = numbers_of(one).integers(count, 0, 2**8 - 1)
    assert changed.nonzero()[0].tolist() == [7 + turn * MOST_BYTES for turn in range(5)]
    assert len(set(changed[changed > 0].tolist())) == 5


def fuzzed(strategy):
    """Return a function that draws a case of some bytes, with the bytes that it used."""
    drawn = []

    @settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(case):
        drawn.append(case)

    def draw(given_bytes):
        drawn.clear()
        used = collect.hypothesis.fuzz_one_input(bytes(given_bytes) + ZEROS)
        return (drawn[0], len(used)) if drawn else (None, 0)

    return draw


def arrays_of(arguments):
    """Return the arrays of a call."""
    values = [entry for value in arguments.values() for entry in (value if isinstance(value, list) else [value])]
    return [value for value in values if isinstance(value, np.ndarray)]


def changes(operation, is_entry_wise, num_changes, num_cases=1):
    """Yield how many entries a byte changes of calls of an operation."""
    strategy = strategies.for_operation(operation, is_entry_wise=is_entry_wise)
    yield from changes_of(strategy, operation, num_changes, num_cases, lambda case: check_call(operation, case))


def changes_of(strategy, seed, num_changes, num_cases, check=lambda case: None):
    """Yield how many entries a byte changes, of how many, and the largest share of one array; shapes stay."""
    draw, random = fuzzed(strategy), Random(seed)
    for _ in range(num_cases):
        given_bytes = random.randbytes(1000)
        case, used = draw(given_bytes)
        check(case)
        for _ in range(num_changes):
            other = bytearray(given_bytes)
            other[random.randrange(min(used, len(other)))] ^= random.randint(1, 255)
            pairs = list(zip(arrays_of(case), arrays_of(draw(other)[0] or {}), strict=False))
            if len(pairs) != len(arrays_of(case)) or any(one.shape != two.shape for one, two in pairs):
                continue
            counts = [int(((one != two) & ((one == one) | (two == two))).sum()) for one, two in pairs]
            if any(counts):
                share = max(count / one.size for count, (one, _) in zip(counts, pairs, strict=True) if one.size)
                yield sum(counts), sum(one.size for one, _ in pairs), share


def test_a_byte_changes_an_entry_and_no_array():
    found = [change for operation in RECORDS for change in changes(operation, is_entry_wise=True, num_changes=2)]
    num_entries = np.array([count for count, *_ in found])
    assert len(found) > len(RECORDS) / 2
    assert np.median(num_entries) <= 2
    assert (num_entries <= FEW).mean() > 0.7


@pytest.mark.parametrize(
    "strategy",
    [
        verify.chains,
        extend.cut_prompts,
        compact.verified_windows,
        compact.permuted_pools,
        draft.permuted_vocabularies,
        scenes.scenes,
    ],
)
def test_a_byte_changes_few_entries_of_what_laws_are_given(strategy):
    found = list(changes_of(strategies.entry_wise(strategy), strategy.__name__, num_changes=20, num_cases=2))
    assert found
    assert np.median([count for count, *_ in found]) <= FEW


@pytest.mark.slow
@pytest.mark.parametrize("operation", RECORDS)
def test_a_byte_changes_few_entries_of_each_operation(operation):
    """Of arrays with more bytes than a source has, a byte stands for a small share."""
    found = list(changes(operation, is_entry_wise=True, num_changes=20, num_cases=4))
    assert np.median([count / max(8, size / 16) for count, size, _ in found]) <= 1


@pytest.mark.parametrize("operation", ["move_kv_cache", "commit_recurrent_states"])
def test_a_byte_of_a_seed_changes_an_array(operation):
    assert max(share for *_, share in changes(operation, is_entry_wise=False, num_changes=60)) > 0.9


CLASSES = {what: ("verify_tree_greedy", predicate) for what, predicate in test_discovery.VERIFY.items()}
CLASSES |= {what: (test_discovery_trees.TREE, predicate) for what, predicate in test_discovery_trees.TREES.items()}
CLASSES |= test_discovery.OTHERS | test_discovery_sampling.OTHERS
CLASSES |= {what: (operation, predicate) for what, (operation, predicate, _) in test_discovery_pools.CALLS.items()}
CLASSES_OF = {}
for what, (operation, predicate) in CLASSES.items():
    CLASSES_OF.setdefault(operation, {})[what] = predicate
QUICK = ("equal sibling tokens", "a partial path")
MOST_CASES, ROUND = 3000, 20
"""Cases of an operation, and how many are drawn at a time: most classes are among the first."""


def missed(operation, wanted):
    """Return the classes of an operation of which no case is drawn; cases are drawn once, and while one is missed."""
    left = {what: CLASSES[what][1] for what in wanted}
    for case in Pool(strategies.for_operation(operation, is_entry_wise=True), MOST_CASES, ROUND):
        left = {what: predicate for what, predicate in left.items() if not predicate(case)}
        if not left:
            break
    return [*left]


def test_quick_classes_are_drawn():
    assert missed("verify_tree_greedy", QUICK) == []


@pytest.mark.slow
@pytest.mark.parametrize("operation", CLASSES_OF)
def test_the_same_classes_are_drawn(operation):
    assert missed(operation, CLASSES_OF[operation]) == []
