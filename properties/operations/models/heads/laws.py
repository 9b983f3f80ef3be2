"""Laws of the heads: what the target prefers, and how far the draft model agrees."""

import numpy as np

from specsim.conformance.backend import Backend
from specsim.hashing import BROKEN, GOLDEN, mix
from specsim.properties.laws.checks import Array, Case, outputs_of, require, require_equal, states

# NOTE: restated and not imported: what a draft model that always, or never, agrees is asked for.
ALWAYS = 2**32
NEVER = -1


def hash_logits_have_no_ties(backend: Backend, case: Case) -> None:
    """The logits of a row differ, and the token id is their low ten bits."""
    logits = outputs_of(backend, "hash_target_logits", case)["logits"]
    tokens = np.broadcast_to(np.arange(logits.shape[1]), logits.shape)
    require_equal("the low bits of the logits", logits % 1024, tokens)
    require(bool((logits >= 0).all() and (logits < 2**32).all()), "the logits", "some", "32-bit words")


def logits_depend_on_every_fold_and_the_seed(backend: Backend, case: Case) -> None:
    """Another fold of any layer, or another seed, gives other logits; the context word gives the same."""
    logits = outputs_of(backend, "hash_target_logits", case)["logits"]
    if not logits.size:
        return
    for word in range(case["hidden_states"].shape[1]):
        states = case["hidden_states"].copy()
        states[:, word] ^= 1
        changed = outputs_of(backend, "hash_target_logits", {**case, "hidden_states": states})["logits"]
        is_context = word == states.shape[1] - 1
        differs = (changed != logits).any(axis=1)
        require_equal(f"rows that another word {word} changes", differs, np.full(len(logits), not is_context))
    reseeded = outputs_of(backend, "hash_target_logits", {**case, "seed": case["seed"] ^ 1})["logits"]
    require((reseeded != logits).any(), "the logits under another seed", "unchanged", "others")


def perfect_draft_prefers_the_targets_choice(backend: Backend, case: Case) -> None:
    """With certain agreement the draft's most probable token is the target's choice."""
    best = _target_choice(backend, case)
    perfect = outputs_of(backend, "hash_draft_probabilities", {**case, "agreement": ALWAYS})["probabilities"]
    require_equal("the perfect draft's choice", perfect.argmax(axis=1), best)


def hostile_draft_never_proposes_the_targets_choice(backend: Backend, case: Case) -> None:
    """A hostile draft gives the target's choice probability 0 and, if there are two others, one of them more."""
    best = _target_choice(backend, case)
    hostile = outputs_of(backend, "hash_draft_probabilities", {**case, "agreement": NEVER})["probabilities"]
    require_equal("the probability of the target's choice", hostile[np.arange(len(best)), best], np.zeros(len(best)))
    has_proposal = case["vocab_size"] < 3 or (hostile > 0).any(axis=1).all()
    require(has_proposal, "a hostile draft", "without a proposal", "one with a proposal")


def hash_probabilities_are_distinct_fractions(backend: Backend, case: Case) -> None:
    """The positive probabilities of a row are distinct multiples of 2**-24 below 1; a broken draft's are all NaN."""
    for row in outputs_of(backend, "hash_draft_probabilities", case)["probabilities"].astype(np.float64):
        if case["agreement"] == BROKEN:
            require(bool(np.isnan(row).all()), "a broken draft's probabilities", row.tolist(), "all NaN")
            continue
        numerators = row * 2**24
        require_equal("the numerators", numerators, np.floor(numerators))
        is_inside = bool((row >= 0).all() and (row < 1).all())
        require(is_inside, "a probability", [row.min(), row.max()], "from 0 to below 1")
        positive = numerators[numerators > 0]
        require_equal("the number of distinct probabilities", len(np.unique(positive)), len(positive))


def draft_choice_depends_on_its_cache(backend: Backend, case: Case) -> None:
    """Another draft context gives other probabilities: what the draft cache holds shows in what is proposed."""
    _require_context_shows(backend, "hash_draft_probabilities", {**case, "agreement": 0})


def sampling_logits_follow_the_targets_order(backend: Backend, case: Case) -> None:
    """The target's choice has -1, and each token after it one less, as long as the probabilities stay apart."""
    order = np.argsort(-outputs_of(backend, "hash_target_logits", case)["logits"], axis=1)
    logits = outputs_of(backend, "hash_sampling_logits", case)["logits"]
    expected = -np.minimum(np.arange(1, case["vocab_size"] + 1), min(case["vocab_size"] - 1, 20))
    ranked = np.take_along_axis(logits, order, axis=1)
    require_equal("the logits from the target's choice on", ranked, np.broadcast_to(expected, ranked.shape))


def sampling_probabilities_are_powers_of_two(backend: Backend, case: Case) -> None:
    """In base 2 the logits of a small vocabulary are the logarithms of a distribution."""
    logits = outputs_of(backend, "hash_sampling_logits", case)["logits"].astype(np.float64)
    if case["vocab_size"] <= 21:
        require_equal("the sums of 2**logit", np.exp2(logits).sum(axis=1), np.ones(len(logits)))


def text_target_prefers_the_longest_context(backend: Backend, case: Case) -> None:
    """Logits rank tokens by their count after the longest context, then after shorter ones."""
    logits = outputs_of(backend, "text_target_logits", case)["logits"]
    for row, counts in enumerate(_counts_after(case)):
        ranks = counts[::-1].T.tolist()
        order = sorted(range(len(ranks)), key=lambda token: (ranks[token], logits[row, token]))
        require_equal(f"the tokens of row {row} by logit", np.argsort(logits[row], kind="stable"), order)


def text_ties_are_broken_by_the_state(backend: Backend, case: Case) -> None:
    """The low eight bits of a text logit come from the hidden state, everything above from the counts."""
    logits = outputs_of(backend, "text_target_logits", case)["logits"]
    counts = outputs_of(backend, "text_target_logits", {**case, "hidden_states": _other_folds(case)})["logits"]
    require_equal("the counts under other folds", counts >> 8, logits >> 8)
    if logits.size >= 8:
        require((counts != logits).any(), "the logits under other folds", "unchanged", "others")


def text_draft_shares_the_weight(backend: Backend, case: Case) -> None:
    """A heavier token is no less probable, up to the hashed bits, and the shares add up to at most 1."""
    numerators = outputs_of(backend, "text_draft_probabilities", case)["probabilities"].astype(np.float64) * 2**16
    require_equal("the numerators", numerators, np.floor(numerators))
    shares = np.floor(numerators / 16)
    for row, counts in enumerate(_counts_after(case)):
        weight = sum(int(64**order) * counts[order] for order in range(len(counts)))
        require_equal(f"the shares of row {row}", shares[row], weight * 2**11 // max(int(weight.sum()), 1))


def text_draft_depends_on_its_cache(backend: Backend, case: Case) -> None:
    """Another draft context changes the hashed bits of some token."""
    if case["ngram_counts"].shape[2] >= 8:
        _require_context_shows(backend, "text_draft_probabilities", case)


def _require_context_shows(backend: Backend, operation: str, case: Case) -> None:
    """Raise AssertionError where another draft context leaves the probabilities of a row as they are."""
    contexts = (case["context"], case["context"] ^ 1)
    first, other = (outputs_of(backend, operation, {**case, "context": one})["probabilities"] for one in contexts)
    same = (other == first).all(axis=1)
    require(not same.any(), "rows that another context leaves alone", np.flatnonzero(same), "none")


def _target_choice(backend: Backend, case: Case) -> Array:
    asked = {name: case[name] for name in ("hidden_states", "vocab_size", "seed")}
    return np.asarray(outputs_of(backend, "hash_target_logits", asked)["logits"].argmax(axis=1))


def _other_folds(case: Case) -> Array:
    states = np.array(case["hidden_states"])
    states[:, :-1] ^= 1
    return states


def _counts_after(case: Case) -> list[Array]:
    """Return the counts [order, vocab] that follow the last tokens of each row."""
    tables = case["ngram_counts"]
    rows = []
    for word in case["hidden_states"][:, -1].tolist():
        buckets = [mix(word % 256**order + order * GOLDEN) % tables.shape[1] for order in range(len(tables))]
        rows.append(np.stack([tables[order, bucket] for order, bucket in enumerate(buckets)]).astype(np.int64))
    return rows


PROPERTIES = states(
    "heads",
    (hash_logits_have_no_ties, "hash_target_logits"),
    (logits_depend_on_every_fold_and_the_seed, "hash_target_logits"),
    (perfect_draft_prefers_the_targets_choice, ("hash_draft_probabilities", "hash_target_logits"), "P06"),
    (hostile_draft_never_proposes_the_targets_choice, ("hash_draft_probabilities", "hash_target_logits"), "P07"),
    (hash_probabilities_are_distinct_fractions, "hash_draft_probabilities"),
    (draft_choice_depends_on_its_cache, "hash_draft_probabilities", "P49"),
    (sampling_logits_follow_the_targets_order, ("hash_sampling_logits", "hash_target_logits")),
    (sampling_probabilities_are_powers_of_two, "hash_sampling_logits"),
    (text_target_prefers_the_longest_context, "text_target_logits"),
    (text_ties_are_broken_by_the_state, "text_target_logits"),
    (text_draft_shares_the_weight, "text_draft_probabilities"),
    (text_draft_depends_on_its_cache, "text_draft_probabilities", "P49"),
)
