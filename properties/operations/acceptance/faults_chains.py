"""Faults in the sampler of ragged chains."""

from functools import partial

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Named, given, mutants_of, with_arguments
from specsim.reference.walks import walk_chain


def every_row_has_mass(arguments: Named) -> None:
    """Raise ValueError where a row of the target has no mass."""
    if not (arguments["target_probs"].sum(axis=1) > 0).all():
        raise ValueError("a row has no mass")


_walk = partial(edited, within=walk_chain)
_batch = partial(edited, within="_walk_chains")
_ROWS = 'arguments["target_probs"]'
ROWS_OF_DRAFTS = _batch(f"{_ROWS}[first + request : last + request + 1]", f"{_ROWS}[first : last + 1]")
"""Target rows are counted like drafts, by samplers of probabilities."""

_OWN_COIN = "float(coins.each[place])"
_IS_BELOW = f"decide.is_below({_OWN_COIN} * proposal[token], target[token])"
_IS_ACCEPTED = f"proposal[token] > 0 and {_IS_BELOW}"
_REST = "np.maximum(target - proposal, 0.0)"
_DRAWN_FROM_REST = f"decide.draw({_REST}, coins.final)"
_LAST_ROW = "target_probs[len(tokens)].astype(np.float64)"

MUTANTS = mutants_of(
    "chain_speculative_sampling",
    ("OWN-396", "Rows that no one reads must have mass as well.", given(every_row_has_mass)),
    (
        "D13",
        "Only drafts of the full length count as drawn.",
        _batch("draft_probs is None", "draft_probs is None or last - first < max_num_drafts"),
    ),
    (
        "V05",
        "Of the draft's law only the rejected entry is taken away.",
        _walk("target - proposal", "target - proposal * certain(token, len(target))"),
    ),
    ("V06", "Every draft is accepted.", _walk(_IS_ACCEPTED, "True")),
    (
        "V08",
        "The draft's law is that before its filters.",
        _walk("draft_probs[place].astype(np.float64)", "0.75 * draft_probs[place].astype(np.float64)"),
    ),
    ("V10", "A sentinel is used as a token.", _walk("takewhile(lambda token: token >= 0, drafts)", "drafts")),
    ("V11", "The coin that rejected also draws.", _walk(_DRAWN_FROM_REST, f"decide.draw({_REST}, {_OWN_COIN})")),
    ("V13", "The draft's law does not arrive.", with_arguments(draft_probs=None)),
    (
        "V21",
        "The first start is read before the offsets.",
        _batch("cu_num_drafts[request]", "cu_num_drafts[request or 1]"),
    ),
    (
        "V29",
        "A draft is accepted if a draw from the target matches.",
        _walk(_IS_ACCEPTED, f"draw(target, {_OWN_COIN}) == token"),
    ),
    ("OWN-270", "A coin at the ratio accepts.", _walk(_IS_ACCEPTED, f"{_OWN_COIN} * proposal[token] <= target[token]")),
    (
        "OWN-271",
        "The token after a full chain is never its last draft.",
        _walk(_LAST_ROW, f"{_LAST_ROW} * ~np.isin(np.arange(target_probs.shape[1]), tokens[-1:])"),
    ),
    ("OWN-272", "A rejection draws from the target.", _walk(_REST, "target")),
    ("OWN-273", "Target rows are counted like drafts.", ROWS_OF_DRAFTS),
    (
        "OWN-274",
        "Last coins are counted without empty requests.",
        _batch(
            'arguments["uniform_samples_for_final_sampling"][request]',
            'arguments["uniform_samples_for_final_sampling"][np.count_nonzero(np.diff(cu_num_drafts[: request + 1]))]',
        ),
    ),
    (
        "OWN-286",
        "Where a rejection leaves nothing, no token is drawn.",
        _walk(_DRAWN_FROM_REST, f"{_DRAWN_FROM_REST} if {_REST}.any() else -1"),
    ),
    ("OWN-276", "The final coin tests the drafts too.", _walk(_OWN_COIN, "coins.final")),
)
