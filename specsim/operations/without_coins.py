"""Forms of the samplers that draw their own coins: for implementations whose randomness is no input.

They are no operations, because nothing can agree with them; only their law can be tested.
"""

from dataclasses import replace

from specsim.contracts.contract import ScalarSpec, Unit
from specsim.operations import acceptance
from specsim.operations.record import Operation

SUFFIX = "_without_coins"
SAMPLERS = ("tree_speculative_sampling_target_only", "chain_speculative_sampling", "chain_block_verification")
"""The samplers that have such a form; its name is the rule that it claims."""
SEED = ScalarSpec("seed", low="0", high="2**32-1")


def _drawing_its_own_coins(operation: Operation) -> Operation:
    """Return the form of a sampler that takes a seed, as its last parameter, instead of coins."""
    contract = operation.contract
    parameters = tuple(
        spec for spec in contract.parameters if isinstance(spec, ScalarSpec) or spec.unit is not Unit.COIN
    )
    return replace(
        operation,
        name=operation.name + SUFFIX,
        summary=f"{operation.summary.rstrip('.')}, with coins of its own.",
        contract=replace(contract, parameters=(*parameters, SEED)),
    )


WITHOUT_COINS: dict[str, Operation] = {
    drawing.name: drawing
    for operation in acceptance.OPERATIONS
    if operation.name in SAMPLERS
    for drawing in (_drawing_its_own_coins(operation),)
}
"""All forms by name."""

FORMS = {name.removesuffix(SUFFIX): name for name in WITHOUT_COINS}
"""The form without coins of each sampler."""

SHORT_NAMES = {"tree_speculative_sampling": "tree_speculative_sampling_target_only"}
"""Names under which a sampler is selected too."""

UNSEEN = (
    "a coin of exactly 0, at which a token of probability 0 may be accepted (one draw in 16,777,216)",
    "a coin on the end of a token, where < and <= differ, or so near to 1 that a rounded sum does not reach it",
    "a law that deviates by less than Cohen's w = 0.15, or only on large trees and vocabularies",
    "reads of rows that the walk does not visit, as long as they hold numbers",
)
"""What counting the outputs of a sampler cannot show; with its coins as arguments each of them is a case."""
