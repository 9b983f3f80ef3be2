"""Strategies of the operations of multi-layer drafts."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import MAX_REQUESTS, VALUE_DTYPES, Arguments, Array, bulk, mostly
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.malformed.arguments import with_entry
from specsim.properties.strategies.malformed.structure import one_more
from specsim.properties.strategies.topologies import batch, lengths, request_rows, slack

TRAILING = ((3,), (), (2, 2), (1,), (17,), (0,))
MOST_KEPT = 5


@dataclass(frozen=True)
class Windows:
    """Windows of requests as they lie in flat arrays: where each starts, how many tokens it has, and all tokens."""

    starts: Array
    lengths: Array
    num_tokens: int


@made_once
def _widths(least: int) -> st.SearchStrategy[int]:
    return mostly(st.integers(least, 9), st.sampled_from((least, 31, 32, 33, 65)), one_in=6)


@made_once
@composite
def windows(draw: st.DrawFn, widths: st.SearchStrategy[int], max_requests: int, has_gaps: bool) -> Windows:
    """Draw windows one after the other, with gaps between them if those are allowed."""
    drawn = draw(batch(st.tuples(widths, slack() if has_gaps else st.just(0)), max_requests))
    counts = np.array([width for width, _ in drawn], dtype=np.int64)
    reach = np.array([width + gap for width, gap in drawn], dtype=np.int64)
    starts = np.cumsum(reach) - reach
    return Windows(starts.astype(np.int32), counts.astype(np.int32), int(reach.sum()))


@composite
def rotate_input_ids(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw windows, some without a token, and for all or none of them the place of the next token."""
    drawn, source = draw(windows(_widths(0), max_requests, True)), draw(bulk())
    num_requests = len(drawn.starts)
    chosen = None
    if draw(st.booleans()):
        inside = np.maximum(drawn.lengths - 1 - source.integers(num_requests, 0, 3), 0)
        chosen = (drawn.starts + inside).astype(np.int64)
    return {
        "input_ids": source.integers(drawn.num_tokens, 0, 50),
        "extend_start_loc": drawn.starts,
        "extend_seq_lens": drawn.lengths,
        "next_tokens": source.integers(num_requests, 51, 99),
        "select_index": chosen,
    }


@composite
def assign_new_state(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw windows of decodes and chunks, some of which begin at the front of their text or would begin before it."""
    drawn, source = draw(windows(_widths(1), max_requests, False)), draw(bulk())
    num_requests, num_kept = len(drawn.starts), draw(st.integers(1, MOST_KEPT))
    ends = np.array([draw(_ends_after(int(width))) for width in drawn.lengths], dtype=np.int64)
    rows, req_to_token = request_rows(source, num_requests, int(ends.max(initial=0)) + draw(slack()))
    if num_requests:
        rows[draw(st.integers(0, num_requests - 1)) :] *= draw(mostly(st.just(1), st.just(0), one_in=8))
    firsts = [end - width for end, width in zip(ends.tolist(), drawn.lengths.tolist(), strict=True)]
    positions = [np.maximum(np.arange(first, end), 0) for first, end in zip(firsts, ends.tolist(), strict=True)]
    trailing, dtype = draw(st.sampled_from(TRAILING)), draw(st.sampled_from(VALUE_DTYPES))
    return {
        "input_ids": source.integers(drawn.num_tokens, 1, 50),
        "positions": np.concatenate([np.zeros(0, dtype=np.int64), *positions]),
        "out_cache_loc": source.order(drawn.num_tokens).astype(np.int64) + 1,
        "hidden_states": source.values((drawn.num_tokens, *trailing), dtype),
        "extend_start_loc": drawn.starts,
        "extend_seq_lens": drawn.lengths,
        "next_tokens": source.integers(num_requests, 51, 99),
        "num_padding": np.minimum(source.integers(num_requests, 0, 4), drawn.lengths).astype(np.int32),
        "req_pool_indices": rows,
        "req_to_token": req_to_token,
        "forward_seq_lens": ends,
        "hidden_states_pool": source.values((len(req_to_token), num_kept, *trailing), dtype),
        "draft_layer": draw(st.integers(0, num_kept - 1)),
    }


@composite
def assign_hidden_states_pool(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw windows of which a front is committed: nothing, less than is kept, exactly that, or more."""
    drawn, source = draw(windows(_widths(0), max_requests, True)), draw(bulk())
    num_requests, num_kept = len(drawn.starts), draw(mostly(st.integers(1, MOST_KEPT), st.just(0), one_in=12))
    num_rows = num_requests + draw(st.integers(1, 3))
    rows = source.order(num_rows - 1)[:num_requests].astype(np.int64) + 1
    committed = np.minimum(source.integers(num_requests, 0, num_kept + 2), drawn.lengths)
    trailing, dtype = draw(st.sampled_from(TRAILING)), draw(st.sampled_from(VALUE_DTYPES))
    return {
        "hidden_states": source.values((drawn.num_tokens, *trailing), dtype),
        "extend_start_loc": drawn.starts,
        "num_committed": committed.astype(np.int32),
        "req_pool_indices": np.where(source.integers(num_requests, 0, 7) == 1, 0, rows),
        "hidden_states_pool": source.values((num_rows, num_kept, *trailing), dtype),
    }


def _ends_after(width: int) -> st.SearchStrategy[int]:
    """Return a strategy of where a window ends: after some text, at its front, or where it began before its text."""
    return mostly(lengths().map(lambda length: length + width), st.sampled_from((width, max(width - 1, 0))), one_in=3)


def overlapping_segments(arguments: Arguments, where: int) -> Arguments:
    """Tokens of a request are those of the one after it, too."""
    del where
    return {**arguments, "extend_start_loc": np.zeros_like(arguments["extend_start_loc"])}


def token_of_another_request(arguments: Arguments, where: int) -> Arguments:
    """A request writes its next token after its own."""
    if arguments["select_index"] is None or not len(arguments["select_index"]):
        return arguments
    request = where % len(arguments["select_index"])
    end = int(arguments["extend_start_loc"][request] + arguments["extend_seq_lens"][request])
    return with_entry(arguments, "select_index", request, end)


def more_padding_than_window(arguments: Arguments, where: int) -> Arguments:
    """A window is less than its padding."""
    if not len(arguments["num_padding"]):
        return arguments
    request = where % len(arguments["num_padding"])
    return with_entry(arguments, "num_padding", request, int(arguments["extend_seq_lens"][request]) + 1)


def pool_row_written_twice(arguments: Arguments, where: int) -> Arguments:
    """Two requests have one row."""
    return with_entry(arguments, "req_pool_indices", where, arguments["req_pool_indices"].max(initial=0))


FAULTS = {
    "rotate_input_ids": (overlapping_segments, token_of_another_request),
    "assign_new_state": (one_more("extend_seq_lens"), overlapping_segments, more_padding_than_window),
    "assign_hidden_states_pool": (overlapping_segments, pool_row_written_twice),
}
