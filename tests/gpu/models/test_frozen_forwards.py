import numpy as np
import pytest

from specsim.hashing import MASK as WORD
from specsim.rejection import Reason


def arguments_of(prefixes, topk, target_layers, depth, num_words=4, seed=1):
    """Return a forward over requests whose keys lie in any slots; the list of keys has room to spare."""
    source = np.random.default_rng(seed)
    num_slots = 2 + sum(prefixes)
    owned = np.split(1 + source.permutation(num_slots - 1)[: sum(prefixes)], np.cumsum(prefixes)[:-1])
    visible = [slots for slots in owned[: len(prefixes)] for _ in range(topk)]
    lengths = [len(slots) for slots in visible]
    return {
        "kv_buffers": list(source.integers(0, 99, (2 * len(target_layers), num_slots, 4))),
        "input_ids": source.integers(0, 256, len(visible)),
        "hidden_states": source.integers(0, WORD, (len(visible), num_words), endpoint=True),
        "positions": np.maximum(np.array(lengths, dtype=np.int64) - 1, 0),
        "kv_indices": np.concatenate([np.arange(0), *visible, [0] * 5]).astype(np.int32),
        "kv_indptr": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        "target_layers": np.array(target_layers, dtype=np.int64),
        "depth": depth,
    }


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("target_layers", [[0], [2, 0], [1, 1, 2]], ids=str)
@pytest.mark.parametrize("prefixes", [[7], [0, 90, 300, 5], []], ids=["one", "batch", "none"])
def test_the_target_is_foreseen_alike(agrees, prefixes, target_layers, depth):
    agrees("frozen_kv_draft_forward", **arguments_of(prefixes, 3, target_layers, depth))


def test_views_are_read_where_they_lie(agrees):
    arguments = arguments_of([3, 70], 2, [1], 1)
    num_slots = len(arguments["kv_buffers"][0])
    base = np.random.default_rng(5).integers(0, WORD, (2, 2 * num_slots + 1, 9))
    arguments["kv_buffers"] = [base[0, 1::2, 1::2], base[1, ::2, ::2][:num_slots, :4]]
    agrees("frozen_kv_draft_forward", **arguments)


def test_a_layer_that_the_target_has_not_is_rejected(rejection):
    arguments = arguments_of([3], 2, [3], 1)
    assert rejection("frozen_kv_draft_forward", **arguments) is Reason.COUNT_OUT_OF_RANGE
