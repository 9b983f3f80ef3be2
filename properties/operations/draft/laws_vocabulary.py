"""Laws of drafting, continued: the map from the draft vocabulary to the target's."""

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import Case, outputs_of, require_equal, states
from specsim.properties.operations.draft import strategy as strategies
from specsim.properties.strategies.numbers import generators


def identity_map_changes_nothing(backend: Backend, case: Case) -> None:
    """A table that maps each id to itself leaves every id as it is."""
    identity = np.arange(len(case["hot_token_id"]), dtype=np.int64)
    mapped = outputs_of(backend, "map_hot_tokens", {**case, "hot_token_id": identity})["token_index"]
    require_equal("ids through the identity table", mapped, case["topk_index"])


def hot_map_reads_the_table(backend: Backend, case: Case) -> None:
    """Every entry becomes the table's entry for it."""
    mapped = outputs_of(backend, "map_hot_tokens", case)["token_index"]
    require_equal("token_index", mapped, case["hot_token_id"][case["topk_index"]])


def hot_maps_compose(backend: Backend, case: Case) -> None:
    """A permutation of the draft vocabulary and its inverse, one after the other, restore every id."""
    there = case["permutation"]
    back = np.argsort(there)
    mapped = outputs_of(backend, "map_hot_tokens", {"topk_index": case["topk_index"], "hot_token_id": there})
    restored = outputs_of(backend, "map_hot_tokens", {"topk_index": mapped["token_index"], "hot_token_id": back})
    require_equal("ids there and back", restored["token_index"], case["topk_index"])


@composite
def permuted_vocabularies(draw: st.DrawFn) -> Case:
    """Draw ids and a permutation of their vocabulary."""
    size = draw(st.integers(1, 9))
    shape = draw(st.tuples(st.integers(0, 4), st.integers(1, 4)))
    random = draw(generators())
    return {"topk_index": random.integers(0, size, shape), "permutation": random.permutation(size)}


_MAP = ("map_hot_tokens",)

PROPERTIES = states(
    "draft",
    (identity_map_changes_nothing, strategies.map_hot_tokens, _MAP, "P50"),
    (hot_map_reads_the_table, strategies.map_hot_tokens, _MAP, "P50"),
    (hot_maps_compose, permuted_vocabularies, _MAP, "P50"),
)
