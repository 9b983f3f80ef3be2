"""One record of the table: facts only, no callables, no skips, no tolerances."""

from dataclasses import dataclass

from specsim.contracts.contract import Contract


@dataclass(frozen=True)
class Operation:
    """An operation of draft, verify or extend.

    ``name`` is the function name in every layer and ``group`` the module name; ``source`` says where the meaning
    comes from.
    """

    name: str
    group: str
    summary: str
    contract: Contract
    source: str
