"""The verdict on drawn drafts: whether recorded rows are what they were drawn from, how far off, and after what."""

import re
from fractions import Fraction
from time import process_time

import numpy as np
import pytest
from ml_dtypes import bfloat16

from specsim.conformance.backend import Backend, load
from specsim.conformance.limits import Limits
from specsim.host.proposals import SampledChains, sample_draft_chains, walk_markov_drafts, walk_selector_drafts
from specsim.properties.host.proposals.laws import CHAINS, MARKOV, SELECTOR, walk_of
from specsim.properties.host.proposals.realised_rows import realised_law
from specsim.properties.host.proposals.strategy import WalkCase
from specsim.properties.laws.sampling_cells import AS_A_BLOCK, TOKEN_BY_TOKEN
from specsim.properties.runs.drafted import NAMED
from specsim.properties.runs.sampling.laws_proposals import LOOPS, require_law_of_drawn
from specsim.properties.strategies.limits import OF_PROPOSALS
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.running import run_property
from specsim.properties.suite.hunt.cases import draw_cases

REFERENCE = load("specsim.reference")
EXAMPLES = 30
OF_MARKOV, OF_SELECTOR, OF_CHAINS = OF_PROPOSALS
BASE = (Fraction(1, 2), Fraction(3, 10), Fraction(1, 5))
DRAWN = (Fraction(5, 12), Fraction(1, 2), Fraction(1, 12))
TARGET = (Fraction(2, 5), Fraction(2, 5), Fraction(1, 5))


def walking(walk, name=MARKOV):
    """Return a module that defines one walk alone."""
    return Backend("mine", {name: walk}, REFERENCE.arrays)


def failure_of(backend, name):
    """Return the message of a property that fails, without what shrinking would add; an empty one if it holds."""
    _, failure = run_property(property_named(name), backend, 0, EXAMPLES, is_shrunk=False)
    return "" if failure is None else failure.message


def anchor(temperature=1.0):
    """One draft of three tokens, base (.5, .3, .2), which a token before it multiplies by (1, 2, 1/2)."""
    arguments = {
        "base_logits": np.log(np.array([[[0.5, 0.3, 0.2]]])).astype(np.float32),
        "bias": np.log(np.array([[1, 2, 0.5]] * 3)).astype(np.float32),
        "roots": np.zeros(1, dtype=np.int64),
        "temperatures": np.full(1, temperature, dtype=np.float32),
        "target_ids": None,
        "num_candidates": None,
        "request_rows": np.zeros(1, dtype=np.int64),
        "arrivals": np.ones((1, 1, 3)),
    }
    return WalkCase(arguments, arguments, np.arange(3).reshape(1, 1, 3), 1, 3, np.full(1, 2 / temperature))


def recording(edit):
    """Return a walk that records another row than it draws from."""

    def walk(*, recorded_logits, request_rows, **arguments):
        tokens = walk_markov_drafts(**arguments, request_rows=request_rows, recorded_logits=recorded_logits)
        recorded_logits[request_rows] = edit(recorded_logits[request_rows], arguments)
        return tokens

    return walk


def base(rows, arguments):
    return arguments["base_logits"]


def two_best(rows, arguments):
    return np.where(rows < np.sort(rows)[..., [-2]], -np.inf, rows)


def emitted(target, drawn, recorded):
    """Return the law of the token that a draft drawn from one row leaves, if it is judged by another."""
    rest = [max(p - q, 0) for p, q in zip(target, recorded, strict=True)]
    kept = [d * (min(1, p / q) if q else 1) for d, p, q in zip(drawn, target, recorded, strict=True)]
    lost = 1 - sum(kept)
    return tuple(one + lost * other / (sum(rest) or 1) for one, other in zip(kept, rest, strict=True))


def distance(one, other):
    return sum(abs(p - q) for p, q in zip(one, other, strict=True)) / 2


@pytest.mark.parametrize(
    ("edit", "recorded", "law", "apart"),
    [
        (lambda rows, arguments: rows, DRAWN, TARGET, 0),
        (base, BASE, (Fraction(1, 3), Fraction(7, 12), Fraction(1, 12)), Fraction(11, 60)),
        (
            two_best,
            (Fraction(5, 11), Fraction(6, 11), Fraction(0)),
            (Fraction(11, 30), Fraction(11, 30), Fraction(4, 15)),
            Fraction(1, 15),
        ),
    ],
)
def test_what_a_recorded_row_makes_of_the_target(edit, recorded, law, apart):
    """The drawn law is measured, the recorded one read; what verification emits follows from both."""
    sampler = walk_of(walking(recording(edit)), MARKOV, anchor())
    assert np.allclose(realised_law(sampler, 0), [float(share) for share in DRAWN], atol=1e-6)
    handed = sampler.draw(np.ones((1, 1, 3))).laws[0, 0]
    assert np.allclose(handed, [float(share) for share in recorded], atol=1e-6)
    assert emitted(TARGET, DRAWN, recorded) == law
    assert distance(law, TARGET) == apart <= distance(DRAWN, recorded)
    assert emitted(recorded, DRAWN, recorded) == DRAWN


def test_a_draft_that_is_drawn_at_half_the_temperature():
    drawn = tuple(share / Fraction(62, 144) for share in (Fraction(25, 144), Fraction(36, 144), Fraction(1, 144)))
    sampler = walk_of(REFERENCE, MARKOV, anchor(0.5))
    assert np.allclose(realised_law(sampler, 0), [float(share) for share in drawn], atol=1e-6)
    law = emitted(TARGET, drawn, DRAWN)
    assert [round(float(share), 3) for share in law] == [0.387, 0.465, 0.148]
    assert round(float(distance(law, TARGET)), 3) == 0.065


def test_a_walk_that_records_its_base_is_named_with_its_bias_in_no_sample_and_no_second():
    start = process_time()
    with pytest.raises(AssertionError) as failure:
        property_named(OF_MARKOV).law(walking(recording(base)), [anchor()])
    assert process_time() - start < 1
    assert str(failure.value) == (
        "law of draft 1 of request 0 after [] at temperature 1 over tokens [0, 1, 2] = (0.4167, 0.5000, 0.0833), but"
        " should be (0.5000, 0.3000, 0.2000) as recorded, because the output is off by up to 0.2000 in total variation"
    )


def weights_in_float32(rows, temperatures):
    warm = np.maximum(temperatures, np.float32(1e-5))[:, None]
    exponents = rows.astype(np.float32) / warm
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def race(rows, temperatures, arrivals):
    """Draw as engines do, in float32: the largest share over its exponential number."""
    drawn = (weights_in_float32(rows, temperatures) / arrivals.astype(np.float32)).argmax(axis=1)
    return np.where(temperatures > 0, drawn, rows.argmax(axis=1))


def gumbel(rows, temperatures, arrivals):
    """Draw as engines do, in float32: the largest logit over its temperature, with Gumbel noise."""
    warm = np.maximum(temperatures, np.float32(1e-5))[:, None]
    drawn = (rows.astype(np.float32) / warm - np.log(arrivals.astype(np.float32))).argmax(axis=1)
    return np.where(temperatures > 0, drawn, rows.argmax(axis=1))


def race_in_bfloat16(rows, temperatures, arrivals):
    return race(
        np.log(weights_in_float32(rows, temperatures).astype(bfloat16).astype(np.float32)), temperatures, arrivals
    )


def vectorised(draw):
    """Return a walk over the whole batch at once."""

    def walk(
        base_logits, bias, roots, temperatures, target_ids, num_candidates, request_rows, arrivals, recorded_logits
    ):
        batch, num_columns = np.arange(len(roots)), base_logits.shape[2]
        ids = np.arange(num_columns) if target_ids is None else target_ids
        before, tokens = roots, []
        for place in range(base_logits.shape[1]):
            rows = (base_logits[:, place].astype(np.float32) + bias[before]).astype(base_logits.dtype)
            rows = rows.astype(np.float32)
            kept = np.argsort(-base_logits[:, place].astype(np.float32), axis=1, kind="stable")[:, :num_candidates]
            cut = np.full_like(rows, -np.inf)
            cut[batch[:, None], kept] = rows[batch[:, None], kept]
            before = ids[draw(cut, temperatures, arrivals[:, place])]
            recorded_logits[request_rows, place] = -np.inf
            recorded_logits[request_rows[:, None], place, ids] = cut
            tokens.append(before)
        return np.stack(tokens, axis=1)

    return walk


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("draw", [race, gumbel])
def test_draws_in_float32_conform(draw):
    assert not failure_of(walking(vectorised(draw)), OF_MARKOV)


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_draw_that_rounds_more_than_its_record_does_not():
    assert "as recorded" in failure_of(walking(vectorised(race_in_bfloat16)), OF_MARKOV)


def test_columns_of_an_earlier_walk_need_an_earlier_walk():
    """A buffer that nothing was recorded in hides what a walk leaves in it."""

    def leaving(recorded_logits, **arguments):
        before = recorded_logits.copy()
        tokens = walk_selector_drafts(**arguments, recorded_logits=recorded_logits)
        recorded_logits[...] = np.where(np.isinf(recorded_logits), before, recorded_logits)
        return tokens

    assert "as recorded" in failure_of(walking(leaving, SELECTOR), OF_SELECTOR)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda probs: probs * np.nan, r"law recorded for draft 1 .* should be probabilities that add up to 1"),
        (lambda probs: probs / 2, r"law recorded for draft 1 .* should be probabilities that add up to 1"),
        (lambda probs: probs[:, :, 1:], r"shape of draft_probs = .* should be"),
        (lambda probs: np.roll(probs, 1, axis=2), r"law of draft 1 of request 0 after \[\] .* as recorded, because"),
    ],
)
def test_what_is_no_law_of_the_drafts_is_named(edit, message):
    def chains(**arguments):
        tokens, probs = sample_draft_chains(**arguments)
        return SampledChains(tokens, edit(probs))

    assert re.match(message, failure_of(walking(chains, CHAINS), OF_CHAINS))


def test_a_draft_outside_the_vocabulary_is_named():
    def walk(**arguments):
        return walk_markov_drafts(**arguments) + 100

    assert re.match(
        r"draft 1 of request \d after \[\] at temperature .* = 10\d, but should be one of",
        failure_of(walking(walk), OF_MARKOV),
    )


def test_draws_of_the_target_read_no_row():
    wrong = Backend("mine", {MARKOV: recording(base)}, REFERENCE.arrays, limits=Limits(accepts_equal_draws=True))
    report, failure = run_property(property_named(OF_MARKOV), wrong, 0, EXAMPLES, is_shrunk=False)
    assert failure is None and report.is_excluded


def late(rows):
    """Hand the row of the next draft over, of the last one its own."""
    return (*rows[1:], *rows[-1:])


def twice(rows):
    """Hand rows over as at half their temperature."""
    squares = [[share * share for share in row] for row in rows]
    return tuple(tuple(share / sum(row) for share in row) for row in squares)


def unfiltered(rows):
    """Hand rows over that no filter has cut."""
    return tuple(tuple((share + Fraction(1, len(row))) / 2 for share in row) for row in rows)


def unmapped(rows):
    """Hand rows over that are half by column, half by token."""
    return tuple(tuple((one + other) / 2 for one, other in zip(row, row[::-1], strict=True)) for row in rows)


@pytest.mark.parametrize("rule", [TOKEN_BY_TOKEN, AS_A_BLOCK])
@pytest.mark.parametrize("hand_over", [late, twice, unfiltered, unmapped])
def test_rows_that_no_draft_was_drawn_from_show_in_whole_runs(hand_over, rule):
    name = f"proposals_engine.drawn_{'blocks' if rule is AS_A_BLOCK else 'drafts'}_emit_the_autoregressive_law"
    for case in draw_cases(property_named(name), 0, EXAMPLES):
        if hand_over is late and case.config.num_steps == 1:
            continue
        try:
            require_law_of_drawn(REFERENCE, case, rule, hand_over)
        except AssertionError as failure:
            assert re.match("law of prompt .*, drafts drawn", str(failure))
            return
    raise AssertionError("no run shows it")


def test_every_loop_with_a_draft_model_draws():
    cases = draw_cases(property_named("proposals_engine.drawn_drafts_emit_the_autoregressive_law"), 0, 60)
    assert {(case.drafting.drafter, case.is_v1) for case in cases} == {NAMED[name] for name in LOOPS}
    assert any(case.model.hot_token_id is not None for case in cases)
