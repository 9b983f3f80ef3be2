"""Faults that every operation has which reads the map of slots: of rows, and of pages."""

from typing import Any

import numpy as np

from specsim.properties.mutants.record import Named


def rows_of_the_batch(arguments: Named) -> None:
    """Take the place in the batch for the row."""
    count = len(arguments["req_pool_indices"])
    arguments["req_pool_indices"] = np.arange(count, dtype=np.int64) % max(len(arguments["req_to_token"]), 1)


def slots_for_pages(outputs: Named, arguments: Named) -> None:
    """Return slots where pages should stand."""
    outputs["page_table"] = outputs["page_table"] * np.int32(arguments["page_size"])


def every_position_a_page(outputs: Named, arguments: Named) -> None:
    """Read every position as a page of its own."""
    rows: Any = arguments["req_to_token"][arguments["req_pool_indices"], : outputs["page_table"].shape[1]]
    outputs["page_table"] = (rows // arguments["page_size"]).astype(np.int32)


def front_of_the_window(accept_index: Any) -> Any:
    """Return the first nodes of each request's window in the place of those of its path."""
    nodes = accept_index[:, :1] + np.arange(accept_index.shape[1], dtype=np.int32)
    return np.where(accept_index < 0, -1, nodes)


def newest_key_unseen(arguments: Named) -> None:
    """Leave the last key of every list out."""
    ends = arguments["kv_indptr"]
    kept = np.ones(len(arguments["kv_indices"]), dtype=np.bool_)
    kept[ends[1:][np.diff(ends) > 0] - 1] = False
    arguments["kv_indices"] = arguments["kv_indices"][kept]
    arguments["kv_indptr"] = np.concatenate([[0], np.cumsum(np.maximum(np.diff(ends) - 1, 0))]).astype(np.int32)
