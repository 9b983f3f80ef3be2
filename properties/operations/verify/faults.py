"""Faults in the walk along the target's choices, and in the metadata of its forward."""

from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, Named, given, instead, mutants_of, returning, with_outputs
from specsim.properties.mutants.tables import every_position_a_page, rows_of_the_batch, slots_for_pages
from specsim.reference.verify import lay_out_verify
from specsim.topology import Topology

Array = Any
CONFIGURED_WIDTH = 4
TILE = 8


def walking(
    children_of: Any = lambda siblings, arguments, request, node: siblings,
    chosen_after: Any = lambda arguments, request, node, child: arguments["target_predict"][request, node],
    bonus_after: Any = lambda arguments, request, node: arguments["target_predict"][request, node],
) -> Callable[[Function], Function]:
    """Inject a walk like the correct one, but among other children, along other choices, or to another bonus token."""

    def verify(**arguments: Any) -> tuple[Array, Array, Array]:
        candidates, num_steps = arguments["candidates"], arguments["num_steps"]
        num_requests, num_nodes = candidates.shape
        predict = np.zeros(num_requests * num_nodes, dtype=np.int32)
        accept_index = np.full((num_requests, num_steps + 1), -1, dtype=np.int32)
        num_accepted_drafts = np.zeros(num_requests, dtype=np.int32)
        for request in range(num_requests):
            path = [0]
            while len(path) <= num_steps:
                node = path[-1]
                children = children_of(children_after(arguments, request, node), arguments, request, node)
                matching = [n for n in children if candidates[request, n] == chosen_after(arguments, request, node, n)]
                if not matching:
                    break
                path.append(matching[0])
            for place, node in enumerate(path):
                accept_index[request, place] = request * num_nodes + node
                follows = path[place + 1] if place + 1 < len(path) else node
                predict[request * num_nodes + node] = (
                    candidates[request, follows] if follows != node else bonus_after(arguments, request, node)
                )
            num_accepted_drafts[request] = len(path) - 1
        return predict, accept_index, num_accepted_drafts

    return instead(verify)


def children_after(arguments: Named, request: int, node: int) -> list[int]:
    """Return the children of a node of a request, in order."""
    links = (arguments[f"retrieve_next_{name}"][request] for name in ("token", "sibling"))
    return list(Topology.from_links(*links).children[node])


def _links_lead_on(siblings: list[int], arguments: Named, request: int, node: int) -> list[int]:
    return [child for before, child in zip([node, *siblings], siblings, strict=False) if child > before]


def _up_to_a_larger_token(siblings: list[int], arguments: Named, request: int, node: int) -> list[int]:
    tokens, chosen = arguments["candidates"][request], arguments["target_predict"][request, node]
    return list(takewhile(lambda child: tokens[child] <= chosen, siblings))


def _of_the_draft_itself(arguments: Named, request: int, node: int, child: int) -> Any:
    return arguments["target_predict"][request, node] if node else arguments["candidates"][request, child]


def _of_the_child(arguments: Named, request: int, node: int, child: int) -> Any:
    return arguments["target_predict"][request, child]


def _rows_by_request_number(arguments: Named) -> None:
    target = arguments["target_predict"]
    flat, width = target.reshape(-1), target.shape[1]
    rows = [flat[request : request + width] for request in range(len(target))]
    arguments["target_predict"] = np.array(rows, dtype=target.dtype).reshape(target.shape)


def _all_matches_counted(outputs: Named, arguments: Named) -> None:
    for request, tokens in enumerate(arguments["candidates"].tolist()):
        chosen = arguments["target_predict"][request]
        pairs = [(node, child) for node in range(len(tokens)) for child in children_after(arguments, request, node)]
        matches = sum(tokens[child] == chosen[node] for node, child in pairs)
        most = arguments["num_steps"]
        outputs["num_accepted_drafts"][request] = max(min(matches, most), outputs["num_accepted_drafts"][request])


def _bonus_of_the_root(outputs: Named, arguments: Named) -> None:
    for request, row in enumerate(outputs["accept_index"].tolist()):
        last = max(row)
        outputs["predict"][last] = arguments["target_predict"][request, 0]


def _largest_of_nothing(arguments: Named) -> None:
    max(arguments["seq_lens"].tolist())


_layout = partial(edited, within=lay_out_verify)
_NUM_KEYS, _BEST = "seq_lens[request] + num_queries[request]", "logits[row].argmax()"
_NODE_IS_ACCEPTED = "accept_index[request, num_accepted_drafts[request]] = retrieve_index[request, node]"
_NODE_IS_ACCEPTED_UNNUMBERED = "accept_index[request, num_accepted_drafts[request]] = node"
_OUTPUT_AND_COUNT = """
predict[retrieve_index[request, last]] = target_predict[request, last]
num_accepted_drafts[request] += 1
"""
_OUTPUT_OF_THE_CHILD_AND_COUNT = _OUTPUT_AND_COUNT.replace(
    "retrieve_index[request, last]", "retrieve_index[request, node]"
)

MUTANTS = (
    *mutants_of(
        "verify_tree_greedy",
        ("V16", "The first draft is accepted unverified.", walking(chosen_after=_of_the_draft_itself)),
        ("V03", "A child is tested against its own row, not its parent's.", walking(chosen_after=_of_the_child)),
        ("V22", "Rows of single nodes are looked up by request number.", given(_rows_by_request_number)),
        ("M05", "Every matching node counts as accepted.", returning(_all_matches_counted)),
        (
            "PV05",
            "The count of drafts is counted up in place by the bonus.",
            with_outputs(num_accepted_drafts=lambda counts: counts + np.int32(1)),
        ),
        ("OWN-48", "Of equal siblings the higher wins.", walking(lambda siblings, *_: siblings[::-1])),
        ("OWN-391", "Siblings are tried by ascending number.", walking(lambda siblings, *_: sorted(siblings))),
        ("OWN-392", "A link to a smaller number is taken for the end.", walking(_links_lead_on)),
        ("OWN-397", "A sibling with a larger token ends the search.", walking(_up_to_a_larger_token)),
        ("OWN-49", "Only the first child is tried.", walking(lambda siblings, *_: siblings[:1])),
        ("OWN-50", "The walk ends one step early.", edited("range(num_steps)", "range(num_steps - 1)")),
        (
            "OWN-51",
            "Accepted nodes are numbered within the request.",
            edited("retrieve_index[request, 0]", "0", _NODE_IS_ACCEPTED, _NODE_IS_ACCEPTED_UNNUMBERED),
        ),
        ("OWN-52", "Rows are padded with node 0.", with_outputs(accept_index=lambda index: np.maximum(index, 0))),
        (
            "OWN-53",
            "Output is keyed by the child that follows.",
            edited(_OUTPUT_AND_COUNT, _OUTPUT_OF_THE_CHILD_AND_COUNT),
        ),
        ("OWN-54", "The bonus token comes from the root's row.", returning(_bonus_of_the_root)),
    ),
    *mutants_of(
        "argmax_target_predict",
        ("V30", "The best block's local index is kept.", edited(_BEST, f"{_BEST} % {TILE}")),
        (
            "V19",
            "Row offsets wrap at 32, as int32 does at 2**31.",
            edited("logits[row]", "logits.reshape(-1)[row * logits.shape[1] % 32 :][: logits.shape[1]]"),
        ),
        ("OWN-55", "Ties go to the higher id.", edited(_BEST, "logits.shape[1] - 1 - logits[row, ::-1].argmax()")),
    ),
    *mutants_of(
        "target_verify_metadata",
        (
            "G10",
            "Tokens per request are the configured tree width.",
            edited('axes["tokens_per_request"]', f"{CONFIGURED_WIDTH}"),
        ),
        (
            "OWN-56",
            "Query offsets keep the configured stride.",
            _layout("cu_seqlens_q[request] + num_queries[request]", f"cu_seqlens_q[request] + {CONFIGURED_WIDTH}"),
        ),
        ("G09", "The longest of no requests is asked for.", given(_largest_of_nothing)),
        (
            "PV12",
            "A verify adds one position, however many tokens it holds.",
            _layout(_NUM_KEYS, "seq_lens[request] + 1"),
        ),
        ("OWN-57", "Lengths have already advanced.", _layout(_NUM_KEYS, f"{_NUM_KEYS} + num_queries[request]")),
        (
            "OWN-58",
            "Key offsets start after the first request.",
            with_outputs(cu_seqlens_k=lambda offsets: np.append(offsets[1:], offsets[-1:])),
        ),
        ("OWN-59", "Slots stand where pages should.", returning(slots_for_pages)),
        ("OWN-60", "Every position is read as a page of its own.", returning(every_position_a_page)),
        ("OWN-61", "The row is the place in the batch.", given(rows_of_the_batch)),
    ),
)
