"""What the strategy of tree attention must find."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from specsim.contracts.attended import slots_read
from tests.quality.pool import calls_of

Case = dict[str, Any]


def masks(case: Case) -> Any:
    """Return which nodes each node sees, bool [request, node, node]."""
    return case["tree_mask"].reshape(-1, case["num_draft_tokens"], case["num_draft_tokens"])


def unread(case: Case) -> Any:
    """Return the keys in slots that no request reads."""
    return case["k_buffer"][~slots_read(case, len(case["k_buffer"]))].astype(np.float32)


FOUND: dict[str, Callable[[Case], Any]] = {
    "query heads in groups of two KV heads": lambda case: (
        case["q"].shape[1] > case["k_buffer"].shape[1] > 1 and len(case["q"]) > 1
    ),
    "a head for each KV head": lambda case: case["q"].shape[1] == case["k_buffer"].shape[1] > 1,
    "bfloat16": lambda case: case["q"].dtype.name == "bfloat16" and len(case["q"]) > 1,
    "float16": lambda case: case["q"].dtype == np.float16 and len(case["q"]) > 1,
    "float32": lambda case: case["q"].dtype == np.float32 and len(case["q"]) > 1,
    "a head of no power of two": lambda case: case["q"].shape[2] & (case["q"].shape[2] - 1) and len(case["q"]),
    "a scale": lambda case: case["softmax_scale"] is not None and len(case["q"]),
    "a prefix beside none": lambda case: len(set(np.minimum(case["cache_seqlens"] - case["num_draft_tokens"], 1))) == 2,
    "a page that requests share": lambda case: (
        len(case["page_table"]) > 1 and case["page_table"].size and len(set(case["page_table"][:, 0].tolist())) == 1
    ),
    "a last page that is read in part": lambda case: (case["cache_seqlens"] % case["page_size"]).any(),
    "columns past a length that name no page": lambda case: (case["page_table"] < 0).any(),
    "no numbers where no key is": lambda case: np.isnan(unread(case)).any(),
    "infinities where no key is": lambda case: np.isinf(unread(case)).any(),
    "a node that sees neither itself nor a prefix": lambda case: (
        ~masks(case).any(axis=2) & (case["cache_seqlens"] == case["num_draft_tokens"])[:, None]
    ).any(),
    "a branch": lambda case: (masks(case).sum(axis=2) < np.arange(1, case["num_draft_tokens"] + 1)).any(),
    "more nodes than a tile has rows": lambda case: case["num_draft_tokens"] > 32,
}


@pytest.mark.parametrize("what", FOUND)
def test_calls_hold(what: str) -> None:
    assert calls_of("tree_attention").first(FOUND[what])
