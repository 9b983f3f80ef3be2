"""Laws of tree attention: which keys a node attends to, and that nothing else has influence.

What an implementation returns may be off by rounding; laws that compare two of its results allow twice the bound.
"""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.contracts.attended import attention_bounds, slots_of, slots_read
from specsim.properties.composite import composite
from specsim.properties.laws.checks import Array, Case, arrangements, batch_of, outputs_of, states
from specsim.properties.operations.attention import strategy as strategies
from specsim.properties.strategies.arrays import Bulk, bulk

_TREE = "tree_attention"
_OUTPUTS = ("attention", "log_sum_exp")
_BUFFERS = ("k_buffer", "v_buffer")


def attention_is_that_over_gathered_keys(backend: Backend, case: Case) -> None:
    """Each node has the plain softmax over a copy of the keys that it sees, query heads in groups of one KV head."""
    num_nodes, num_heads, head_dim = case["num_draft_tokens"], case["q"].shape[1], case["q"].shape[2]
    scale = 1 / np.sqrt(head_dim) if case["softmax_scale"] is None else float(case["softmax_scale"][0])
    attention, log_sum_exp = np.zeros(case["q"].shape), np.full(case["q"].shape[:2], -np.inf)
    repeats = num_heads // case["k_buffer"].shape[1]
    for row in range(len(case["q"])):
        request, node = divmod(row, num_nodes)
        slots = slots_of(case, request)
        window = case["tree_mask"].reshape(-1, num_nodes, num_nodes)[request, node]
        seen = np.concatenate([slots[: len(slots) - num_nodes], slots[len(slots) - num_nodes :][window]])
        if not len(seen):
            continue
        keys, values = (np.repeat(case[name][seen].astype(np.float64), repeats, axis=1) for name in _BUFFERS)
        scores = scale * np.einsum("hd,khd->hk", case["q"][row].astype(np.float64), keys)
        log_sum_exp[row] = np.logaddexp.reduce(scores, axis=1)
        attention[row] = np.einsum("hk,khd->hd", np.exp(scores - log_sum_exp[row][:, None]), values)
    expected = {"attention": attention, "log_sum_exp": log_sum_exp}
    _require_near(outputs_of(backend, _TREE, case), expected, case, times=1)


def other_slots_have_no_influence(backend: Backend, case: Case) -> None:
    """Whatever stands in slots that hold no key, the rest of a last page among them, the outputs are the same."""
    is_read = slots_read(case, len(case["k_buffer"]))
    expected = outputs_of(backend, _TREE, case)
    for poison in (np.nan, 30.0):
        changed = dict(case)
        for name in _BUFFERS:
            changed[name] = case[name].copy()
            changed[name][~is_read] = poison
        _require_near(outputs_of(backend, _TREE, changed), expected, case, f" with {poison} elsewhere")


def unseen_nodes_have_no_influence(backend: Backend, case: tuple[Case, Bulk]) -> None:
    """Other keys and values of the nodes that a node does not see change nothing of that node."""
    arguments, source = case
    num_nodes, expected = arguments["num_draft_tokens"], outputs_of(backend, _TREE, arguments)
    masks = arguments["tree_mask"].reshape(-1, num_nodes, num_nodes)
    chosen = source.integers(len(masks), 0, num_nodes - 1)
    changed = {**arguments, **{name: arguments[name].copy() for name in _BUFFERS}}
    for request, node in enumerate(chosen.tolist()):
        window = slots_of(arguments, request)[-num_nodes:]
        for name in _BUFFERS:
            changed[name][window[~masks[request, node]]] = -9.0
    rows = np.arange(len(masks)) * num_nodes + chosen
    got = outputs_of(backend, _TREE, changed)
    for one in (got, expected):
        one.update({name: one[name][rows] for name in _OUTPUTS})
    _require_near(got, expected, arguments, " of a node that sees no change", rows)


def pages_may_lie_anywhere(backend: Backend, case: tuple[Case, Bulk]) -> None:
    """Pages that move within the pool, with the table, change nothing."""
    arguments, source = case
    page_size, num_slots = arguments["page_size"], len(arguments["k_buffer"])
    num_pages = num_slots // page_size
    moved_to = source.order(num_pages)
    moved: Case = dict(arguments)
    for name in _BUFFERS:
        pages = arguments[name][: num_pages * page_size].reshape(num_pages, page_size, *arguments[name].shape[1:])
        buffer = arguments[name].copy()
        buffer[: num_pages * page_size].reshape(pages.shape)[moved_to] = pages
        moved[name] = buffer
    table = arguments["page_table"]
    is_page = (table >= 0) & (table < num_pages)
    moved["page_table"] = np.where(is_page, moved_to[np.where(is_page, table, 0)], table).astype(table.dtype)
    _require_near(outputs_of(backend, _TREE, moved), outputs_of(backend, _TREE, arguments), arguments)


def smaller_pages_name_the_same_slots(backend: Backend, case: Case) -> None:
    """A table of single slots gives what one of their pages gives."""
    page_size = case["page_size"]
    slots = case["page_table"].astype(np.int64)[:, :, None] * page_size + np.arange(page_size)
    table = slots.reshape(len(slots), slots.shape[1] * page_size).astype(np.int32)
    single = {**case, "page_table": table, "page_size": 1}
    _require_near(outputs_of(backend, _TREE, single), outputs_of(backend, _TREE, case), case)


def a_row_of_a_chain_is_causal_attention(backend: Backend, case: Case) -> None:
    """Node i of a chain has what a root alone has whose text ends with it."""
    num_nodes, num_requests = case["num_draft_tokens"], len(case["cache_seqlens"])
    chains = np.tril(np.ones((num_nodes, num_nodes), dtype=np.bool_))
    chain = {**case, "tree_mask": np.tile(chains.reshape(-1), num_requests)}
    got = outputs_of(backend, _TREE, chain)
    for node in range(num_nodes):
        rows = np.arange(num_requests) * num_nodes + node
        lens = (case["cache_seqlens"] - (num_nodes - 1 - node)).astype(np.int32)
        own = {"tree_mask": np.ones(num_requests, dtype=np.bool_), "num_draft_tokens": 1}
        root = {**case, "q": case["q"][rows], "cache_seqlens": lens, **own}
        expected = outputs_of(backend, _TREE, root)
        _require_near({name: got[name][rows] for name in _OUTPUTS}, expected, chain, f" of node {node}", rows)


def parts_join_by_their_sums(backend: Backend, case: Case) -> None:
    """Attention to the window alone and to the prefix alone, weighted by their sums, is attention to both."""
    num_nodes, num_requests = case["num_draft_tokens"], len(case["cache_seqlens"])
    whole = outputs_of(backend, _TREE, case)
    slots = [slots_of(case, request)[-num_nodes:] for request in range(num_requests)]
    page_table = np.array(slots, dtype=np.int32).reshape(num_requests, num_nodes)
    cache_seqlens = np.full(num_requests, num_nodes, dtype=np.int32)
    of_window = {"page_table": page_table, "cache_seqlens": cache_seqlens, "page_size": 1}
    of_prefix = {"tree_mask": np.zeros_like(case["tree_mask"])}
    parts = [outputs_of(backend, _TREE, {**case, **part}) for part in (of_window, of_prefix)]
    sums = np.stack([part["log_sum_exp"].astype(np.float64) for part in parts])
    joined = np.logaddexp.reduce(sums, axis=0)
    weights = np.exp(sums - np.where(np.isfinite(joined), joined, 0.0))[..., None]
    attention = sum(weight * part["attention"].astype(np.float64) for weight, part in zip(weights, parts, strict=True))
    _require_near(whole, {"attention": attention, "log_sum_exp": joined}, case)


def a_node_that_sees_nothing_has_nothing(backend: Backend, case: Case) -> None:
    """Without a prefix and with a mask that is false, attention is 0 and the logarithm of the sum -inf."""
    lengths = np.full(len(case["cache_seqlens"]), case["num_draft_tokens"], dtype=np.int32)
    blind = {**case, "cache_seqlens": lengths, "tree_mask": np.zeros_like(case["tree_mask"])}
    expected = {"attention": np.zeros(case["q"].shape), "log_sum_exp": np.full(case["q"].shape[:2], -np.inf)}
    _require_near(outputs_of(backend, _TREE, blind), expected, blind)


def requests_are_attended_one_by_one(backend: Backend, case: Case) -> None:
    """A request's outputs are the same alone, and in any order of the batch."""
    num_nodes, count = case["num_draft_tokens"], len(case["cache_seqlens"])
    whole = outputs_of(backend, _TREE, case)
    for requests in arrangements(count):
        rows = np.array([request * num_nodes + node for request in requests for node in range(num_nodes)], dtype=int)
        got = outputs_of(backend, _TREE, batch_of(_TREE, case, requests))
        _require_near(got, {name: whole[name][rows] for name in _OUTPUTS}, case, f" of batch {requests}", rows)


def _require_near(
    got: Any, expected: Any, case: Case, what: str = "", rows: Array | None = None, times: int = 2
) -> None:
    """Raise AssertionError where two results of a call, or some rows of them, differ by more than both may be off.

    One that is exact is off by nothing: ``times`` is 1.
    """
    bounds = attention_bounds(case)
    for name in _OUTPUTS:
        bound = bounds[name] if rows is None else bounds[name][rows]
        found, wanted = (np.asarray(one[name]).astype(np.float64) for one in (got, expected))
        with np.errstate(invalid="ignore"):
            is_near = (np.abs(found - wanted) <= times * bound) | (found == wanted)
        for place in np.argwhere(~is_near)[:1]:
            index = ", ".join(map(str, place))
            raise AssertionError(
                f"{name}[{index}]{what} = {found[tuple(place)]}, but should be {wanted[tuple(place)]} "
                f"within {times * bound[tuple(place)]}"
            )


_calls = strategies.tree_attention


@composite
def _with_source(draw: st.DrawFn) -> tuple[Case, Bulk]:
    return draw(_calls()), draw(bulk())


PROPERTIES = states(
    "tree_attention",
    (attention_is_that_over_gathered_keys, _TREE, "P16"),
    (other_slots_have_no_influence, _TREE, "P09"),
    (unseen_nodes_have_no_influence, _with_source, _TREE, "P16"),
    (pages_may_lie_anywhere, _with_source, _TREE, "P51"),
    (smaller_pages_name_the_same_slots, _TREE, "P51"),
    (a_row_of_a_chain_is_causal_attention, _TREE, "P16"),
    (parts_join_by_their_sums, _TREE, "P37"),
    (a_node_that_sees_nothing_has_nothing, _TREE, "P37"),
    (requests_are_attended_one_by_one, _TREE, "P31"),
)
