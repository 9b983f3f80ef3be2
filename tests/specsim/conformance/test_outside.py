"""A call that an implementation declares not to take is never made."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specsim.conformance.backend import Backend, load
from specsim.conformance.completed import Completed
from specsim.conformance.limits import Limits, limits_of
from specsim.conformance.outcomes import Observation, first_difference
from specsim.conformance.outside import OutsideLimits, why_outside
from specsim.operations import RECORDS

ORACLE = load("specsim.reference")
TOP_K = {"probabilities": np.array([[0.5, 0.5], [0.25, 0.75]], dtype=np.float32), "top_k": np.array([1, 2], np.int32)}
CHAIN = {
    "draft_tokens": np.array([1, 1]),
    "cu_num_drafts": np.array([0, 2], dtype=np.int32),
    "uniform_samples": np.array([0.9, 0.5], dtype=np.float32),
    "uniform_samples_for_final_sampling": np.array([0.5], dtype=np.float32),
    "draft_probs": np.array([[0.5, 0.5], [1, 0]], dtype=np.float32),
    "target_probs": np.array([[1, 0], [np.nan, 7], [0.5, 0.5]], dtype=np.float32),
    "max_num_drafts": 2,
}
TREE = {
    "candidates": np.array([[0, 3, 3]]),
    "retrieve_index": np.arange(3)[None],
    "retrieve_next_token": np.array([[1, -1, -1]]),
    "retrieve_next_sibling": np.array([[-1, 2, -1]]),
    "target_predict": np.zeros((1, 3), dtype=np.int64),
    "num_steps": 1,
}


def why(limits: Limits, operation: str, arguments: dict[str, object]) -> str | None:
    return why_outside(limits, RECORDS[operation], arguments)


def of_tree(**taken: tuple[int, ...]) -> Limits:
    return limits_of({"LIMITS": {"verify_tree_greedy": taken}}, "mine")


def test_sizes_and_scalars_have_to_be_taken() -> None:
    assert why(of_tree(node=(1, 2)), "verify_tree_greedy", TREE) == "verify_tree_greedy with node outside 1 to 2"
    assert why(of_tree(num_steps=(0, 2)), "verify_tree_greedy", TREE) is not None
    assert why(of_tree(node=(3, 9), num_steps=(1,), request=(1, 1)), "verify_tree_greedy", TREE) is None


def test_a_batch_is_empty_along_its_rows() -> None:
    empty = {name: value[:0] for name, value in TOP_K.items()}
    assert why(Limits(takes_empty=False), "top_k_renorm", empty) == "an empty batch"
    assert why(Limits(takes_empty=False), "top_k_renorm", TOP_K) is None


def test_rows_have_to_add_up_to_1_where_they_are_read() -> None:
    assert why(Limits(is_normalised=True), "top_k_renorm", TOP_K) is None
    half = {**TOP_K, "probabilities": TOP_K["probabilities"] / 2}
    assert why(Limits(is_normalised=True), "top_k_renorm", half) == "rows of probabilities that do not add up to 1"
    assert why(Limits(is_normalised=True), "chain_speculative_sampling", CHAIN) is None


def test_a_draft_has_a_chance_where_its_row_is_read() -> None:
    limits = Limits(takes_zero_proposals=False)
    assert why(limits, "chain_speculative_sampling", CHAIN) is None
    accepted = {**CHAIN, "target_probs": np.full((3, 2), 0.5, dtype=np.float32)}
    assert why(limits, "chain_speculative_sampling", accepted) == (
        "a draft token of probability 0 under its own proposal"
    )


def test_padding_has_no_proposal() -> None:
    limits, words = Limits(takes_padded_proposals=False), "a draft token of -1 that has a proposal of its own"
    padded = {**CHAIN, "draft_tokens": np.full_like(CHAIN["draft_tokens"], -1)}
    assert why(limits, "chain_speculative_sampling", CHAIN) is None
    assert why(limits, "chain_speculative_sampling", padded) == words
    assert why(limits, "chain_speculative_sampling", {**padded, "draft_probs": None}) is None


def test_siblings_have_to_differ() -> None:
    assert why(Limits(has_distinct_siblings=True), "verify_tree_greedy", TREE) == "siblings with equal tokens"
    chain = {**TREE, "retrieve_next_token": np.array([[1, 2, -1]]), "retrieve_next_sibling": np.full((1, 3), -1)}
    assert why(Limits(has_distinct_siblings=True), "verify_tree_greedy", chain) is None
    cycle = {**TREE, "retrieve_next_token": np.array([[1, 0, -1]])}
    assert why(Limits(has_distinct_siblings=True), "verify_tree_greedy", cycle) is None, "the reference refuses it"


def test_such_a_call_is_not_made() -> None:
    def never(**arguments: object) -> None:
        raise AssertionError

    backend = Backend("mine", {"verify_tree_greedy": never}, ORACLE.arrays, limits=of_tree(node=(1, 2)))
    for call in (backend.run, lambda name, case: backend.call(name, **case)):
        with pytest.raises(OutsideLimits, match="with node outside 1 to 2"):
            call("verify_tree_greedy", TREE)
    expected = ORACLE.verify_tree_greedy(**TREE)
    for got, wanted in zip(Completed(backend, ORACLE).verify_tree_greedy(**TREE), expected, strict=True):
        assert (got == wanted).all()
    with pytest.raises(AssertionError):
        backend.without_limits().run("verify_tree_greedy", TREE)


def test_who_takes_plain_blocks_gets_them() -> None:
    seen = []

    def top_k_renorm(probabilities: np.ndarray, top_k: np.ndarray) -> np.ndarray:
        seen.append(probabilities.flags.c_contiguous)
        return probabilities.copy()

    strided = {**TOP_K, "probabilities": np.asfortranarray(TOP_K["probabilities"])}
    backend = Backend("mine", {"top_k_renorm": top_k_renorm}, ORACLE.arrays)
    backend.run("top_k_renorm", strided)
    replace(backend, limits=Limits(is_contiguous=True)).run("top_k_renorm", strided)
    assert seen == [False, True]


SAMPLER = "tree_speculative_sampling_target_only"
SAMPLED = {
    **{name: TREE[name] for name in TREE if name != "target_predict"},
    "uniform_samples": np.array([[0.75, 0, 0]], dtype=np.float32),
    "uniform_samples_for_final_sampling": np.zeros(1, dtype=np.float32),
    "target_probs": np.full((1, 3, 4), 0.25, dtype=np.float32),
    "draft_probs": np.zeros((1, 3, 4), dtype=np.float32),
    "threshold_single": np.ones(1, dtype=np.float32),
    "threshold_acc": np.ones(1, dtype=np.float32),
    "strict": True,
    "skip_duplicates": True,
}
LACKING = """
from specsim import reference
import numpy as np

DECLARED

def tree_speculative_sampling_target_only(*, target_probs, LEFTcandidates, retrieve_index, retrieve_next_token,
        retrieve_next_sibling, uniform_samples, uniform_samples_for_final_sampling, num_steps, strict, skip_duplicates):
    ones = np.ones(len(candidates), dtype=np.float32)
    return reference.tree_speculative_sampling_target_only(
        candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling, uniform_samples,
        uniform_samples_for_final_sampling, target_probs, np.zeros_like(target_probs), ones, ones, num_steps, strict,
        skip_duplicates)
"""


def test_thresholds_have_to_be_1() -> None:
    limits = limits_of({"THRESHOLDS": False}, "mine")
    assert limits == Limits(takes_thresholds=False) and limits.in_words() == ["a threshold below 1"]
    assert why(limits, SAMPLER, SAMPLED) is None
    for name in ("threshold_single", "threshold_acc"):
        assert why(limits, SAMPLER, {**SAMPLED, name: np.full(1, 0.5, dtype=np.float32)}) == "a threshold below 1"
    assert why(limits, "verify_tree_greedy", TREE) is None


def load_lacking(folder: Path, monkeypatch: pytest.MonkeyPatch, declared: str, left: str = "") -> Backend:
    """Load a tree sampler that has a parameter for neither thresholds nor scratch memory, but for those in ``left``."""
    name = f"lacking_{len(list(folder.iterdir()))}"
    (folder / f"{name}.py").write_text(LACKING.replace("DECLARED", declared).replace("LEFT", left))
    monkeypatch.syspath_prepend(folder)
    return load(name)


def test_a_function_may_lack_what_its_module_declares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = load_lacking(tmp_path, monkeypatch, "THRESHOLDS = SCRATCH = False")
    got, expected = (one.run(SAMPLER, SAMPLED).outputs for one in (both, ORACLE))
    assert got.pop("draft_probs") is None and expected.pop("draft_probs").any()
    assert all((got[name] == expected[name]).all() for name in expected)
    assert both.call(SAMPLER, **SAMPLED).num_accepted_drafts.tolist() == [0]
    thresholds = load_lacking(tmp_path, monkeypatch, "THRESHOLDS = False")
    with pytest.raises(TypeError, match="draft_probs"):
        thresholds.run(SAMPLER, SAMPLED)
    scratch = load_lacking(tmp_path, monkeypatch, "SCRATCH = False")
    with pytest.raises(TypeError, match="threshold"):
        scratch.run(SAMPLER, SAMPLED)


def test_a_function_gets_what_it_has_a_parameter_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = "draft_probs, threshold_acc, "
    with_some = load_lacking(tmp_path, monkeypatch, "THRESHOLDS = SCRATCH = False", left)
    assert with_some.run(SAMPLER, SAMPLED).outputs["num_accepted_drafts"].tolist() == [0]


def test_scratch_memory_that_is_not_written_is_not_compared() -> None:
    expected = Observation(ORACLE.run(SAMPLER, SAMPLED).outputs)
    unwritten = Observation({**expected.outputs, "draft_probs": None})
    assert first_difference(SAMPLER, SAMPLED, expected, unwritten) is None
    zeros = Observation({**expected.outputs, "draft_probs": SAMPLED["draft_probs"]})
    assert first_difference(SAMPLER, SAMPLED, expected, zeros) == "draft_probs[0, 0, 3] = 0.0, but should be 0.25"
    lost = Observation({**unwritten.outputs, "predict": None})
    assert first_difference(SAMPLER, SAMPLED, expected, lost) is not None
