"""Faults in chains from raw logits that are judged as a block: in the laws of rows, and in how they are judged."""

from collections.abc import Callable
from functools import partial

from ml_dtypes import bfloat16

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Mutant, mutants_of, with_arguments
from specsim.properties.operations.acceptance import faults_chain_blocks as blocks
from specsim.properties.operations.acceptance.faults_chain_blocks import left_by, with_share
from specsim.properties.operations.from_logits import faults_chains as chains
from specsim.reference import walks
from specsim.reference.walks import LogitChain, block_of_logits, draw, walk_block_from_logits, walk_chain_greedily

_shares = partial(edited, within=block_of_logits)
_walk = partial(edited, within=walk_block_from_logits)
_left_by = partial(left_by, within=walk_block_from_logits)

_SUM = "log_share + log_p[token] - log_q[token]"
_SHARE = f"min({_SUM}, 0.0)"
_KNOWN: dict[str, Mutant] = {mutant.id: mutant for mutant in blocks.MUTANTS}


def _share_goes_on() -> Callable[[LogitChain], list[int]]:
    share = 1.0

    def walk(chain: LogitChain) -> list[int]:
        nonlocal share
        if chain.temperature == 0:
            return walk_chain_greedily(chain)
        block = with_share(block_of_logits(chain), share)
        kept = block.kept_by(chain.coins)
        share, rest = block.shares[kept], block.rest_after(kept)
        return [*block.tokens[:kept], draw(rest if rest.any() else block.target[kept], chain.coins.final)]

    return walk


MUTANTS = mutants_of(
    "chain_block_verification_from_logits",
    ("OWN-5750", "The last token is drawn from max(p - q, 0), unshifted.", _left_by("1.0")),
    ("OWN-5751", "The first coin that fails ends the walk.", _KNOWN["OWN-4300"].inject),
    ("OWN-5752", "The first coin that keeps a front ends the walk.", _KNOWN["OWN-4301"].inject),
    (
        "OWN-5753",
        "The sum of logarithms is not cut at 0.",
        edited(_SHARE, _SUM, blocks.CHANCE, blocks.CHANCE_OF_ANY_SHARE, within=walks),
    ),
    (
        "OWN-5754",
        "Ratios are cut at 1, and not their product.",
        _shares(_SHARE, "log_share + min(log_p[token] - log_q[token], 0.0)"),
    ),
    ("OWN-5755", "A front's share is its last ratio alone.", _shares(_SHARE, "min(log_p[token] - log_q[token], 0.0)")),
    (
        "OWN-5756",
        "A draft that its own row forbids keeps the share.",
        _shares(
            f"{_SHARE} if log_q[token] > -np.inf else -np.inf", f"{_SHARE} if log_q[token] > -np.inf else log_share"
        ),
    ),
    (
        "OWN-5757",
        "The share goes on from one request to the next.",
        edited("walk_block_from_logits", "share_goes_on()", share_goes_on=_share_goes_on),
    ),
    ("OWN-5758", "Logarithms of shares are in bfloat16.", _shares(_SHARE, f"float(half({_SHARE}))", half=bfloat16)),
    ("OWN-5759", "What a front leaves is added up of its own row.", _KNOWN["OWN-4311"].inject),
    ("OWN-5761", "What a front leaves is its chance.", _KNOWN["OWN-4312"].inject),
    ("OWN-5762", "The last token has the share of the next front.", _left_by("block.shares[kept + 1]")),
    ("OWN-5763", "The last front is judged like others.", _KNOWN["OWN-4310"].inject),
    (
        "OWN-5764",
        "The last token comes from the row of the last draft.",
        edited(blocks.LAST_ROW, blocks.ROW_BEFORE_IT, *chains.LAST_ROW_TWICE, within=walks),
    ),
    (
        "OWN-5765",
        "The coin that kept a front also draws.",
        _walk("chain.coins.final", "float(chain.coins.each[kept - 1]) if kept else chain.coins.final"),
    ),
    ("OWN-5766", "Target rows are counted like drafts.", chains.ROWS_OF_DRAFTS),
    (
        "OWN-5767",
        "Where nothing is left, the last token is drawn.",
        _walk("rest if rest.any() else block.target[kept]", "rest"),
    ),
    ("OWN-5768", "Draft logits are not divided by their temperature.", chains.DRAFT_AT_ONE),
    ("OWN-5769", "Draft logits are divided by the target's.", chains.DRAFT_AT_THE_TARGETS),
    ("OWN-5770", "Draft probabilities add up over common tokens.", chains.COMMON_TOKENS),
    ("OWN-5771", "Filters come before the temperature.", chains.FILTERS_FIRST),
    (
        "OWN-5772",
        "Only the row after all drafts is filtered.",
        _shares("chain.target_law(place)", f"chain.target_law(place) if place == len(tokens) else {chains.UNFILTERED}"),
    ),
    ("OWN-5773", "Greedy requests are sampled at temperature 1.", chains.GREEDY_AT_ONE),
    ("OWN-5774", "Low temperatures are raised.", chains.CLAMPED),
    ("OWN-5775", "Rows that no block reads must be numbers as well.", chains.NUMBERS_EVERYWHERE),
    ("OWN-5776", "A draft is judged by the row of the next one.", chains.NEXT_ROWS),
    ("OWN-5777", "The draft's rows do not arrive.", with_arguments(draft_logits=None)),
)
