"""The cell of a call's coins: how far each may be moved before the outcome that the law expects changes."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from specsim.properties.distribution import Cell, exact
from specsim.properties.laws import sampling_cells
from specsim.properties.strategies.sampling_scenes import ChainScene, TreeScene
from specsim.topology import Topology

COINS = ("uniform_samples", "uniform_samples_for_final_sampling")
LEAST_THRESHOLD = Fraction(1, 2**16)


def cell_of(operation: str, arguments: Mapping[str, Any]) -> tuple[Cell, ...]:
    """Return the cell of each coin of a call with one request, the final coin last; none if it has no such cell."""
    axes_of = _AXES_OF.get(operation)
    if axes_of is None or len(arguments[COINS[1]]) != 1:
        return ()
    try:
        axes = axes_of(arguments)
    except (ZeroDivisionError, ValueError, OverflowError):
        # NOTE: a draft that its own law cannot draw has no ratio, and rows that are not read may hold no numbers.
        return ()
    coins = exact([*arguments[COINS[0]].reshape(-1)[: len(axes) - 1], arguments[COINS[1]][0]])
    found = [[cell for cell in cells if cell.low <= coin < cell.high] for cells, coin in zip(axes, coins, strict=True)]
    return tuple(cells[0] for cells in found) if all(found) else ()


def tokens_of(operation: str, outputs: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the tokens that the first request of a sampler emits, as far as its outputs say."""
    if operation in (sampling_cells.CHAIN_SAMPLER, sampling_cells.BLOCK_SAMPLER):
        return tuple(int(token) for token in outputs["output_tokens"][0] if token >= 0)
    if not {"predict", "accept_index"} <= outputs.keys():
        return ()
    path = [int(node) for node in outputs["accept_index"][0]]
    return tuple(int(outputs["predict"][node]) for node in path if 0 <= node < len(outputs["predict"]))


def _tree_axes(arguments: Mapping[str, Any]) -> Sequence[Sequence[Cell]]:
    links = (arguments[name][0] for name in ("retrieve_next_token", "retrieve_next_sibling"))
    rows = tuple(exact(row) for row in arguments["target_probs"][0])
    tokens = tuple(arguments["candidates"][0].tolist())
    scene = TreeScene(Topology.from_links(*links), tokens, rows, arguments["num_steps"])
    threshold = max(Fraction(float(arguments["threshold_acc"][0])), LEAST_THRESHOLD)
    return sampling_cells.tree_axes(scene, threshold, skip_duplicates=bool(arguments["skip_duplicates"]))


def _chain_axes(arguments: Mapping[str, Any], rule: sampling_cells.ChainRule) -> Sequence[Sequence[Cell]]:
    draft = tuple(token for token in arguments["draft_tokens"].tolist() if token >= 0)
    target = {draft[:place]: exact(arguments["target_probs"][place]) for place in range(len(draft) + 1)}
    proposals = arguments["draft_probs"]
    if proposals is None:
        return sampling_cells.chain_axes(ChainScene(len(draft), target, {}, draft), draft, rule)
    proposal = {draft[:place]: exact(proposals[place]) for place in range(len(draft))}
    return sampling_cells.chain_axes(ChainScene(len(draft), target, proposal), draft, rule)


_AXES_OF: dict[str, Callable[[Mapping[str, Any]], Sequence[Sequence[Cell]]]] = {
    sampling_cells.TREE_SAMPLER: _tree_axes,
    **{
        rule.operation: partial(_chain_axes, rule=rule)
        for rule in (sampling_cells.TOKEN_BY_TOKEN, sampling_cells.AS_A_BLOCK)
    },
}
