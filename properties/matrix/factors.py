"""What the engines of a matrix differ in, and one engine of their product by its name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from operator import attrgetter
from typing import Any

from specsim.algorithms import DRAFTERS
from specsim.host.acceptance import Acceptance
from specsim.properties.soak.drafters import EAGLE
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.verification import VerifyMode

Value = str | int | bool
"""What a factor may be."""


@dataclass(frozen=True)
class Cell:
    """One combination of all factors; the fields are these, in the order in which they are named.

    Parameters
    ----------
    worker : str
        ``v1`` or ``v2``.
    page_size : int
        Slots of a page.
    topk : int
        Branching factor; 1 is a chain.
    pool : str
        The kind of KV pool of the target, and of the draft if a draft can have one.
    overlap : bool
        A turn is launched before the result of the one before is known.
    chunking : bool
        Prompts run in chunks.
    prefix_cache : bool
        Texts are kept, and prompts that begin alike start after them.
    algorithm : str
        What drafts, by its name in ``DRAFTERS``, or in those of the module.
    verify_mode : str
        Whether iterations verify all drafts, or how they keep to a budget.
    acceptance : str
        By which rule the drafts of sampled requests are accepted.
    """

    worker: str
    page_size: int
    topk: int
    pool: str
    overlap: bool
    chunking: bool
    prefix_cache: bool
    algorithm: str = EAGLE
    verify_mode: str = VerifyMode.STATIC.value
    acceptance: str = Acceptance.TOKEN.value

    @property
    def is_scheduled(self) -> bool:
        """Whether iterations keep to a budget of drafts."""
        return self.verify_mode != VerifyMode.STATIC.value

    @property
    def is_coin_by_token(self) -> bool:
        """Whether each draft is judged by a coin, which no name says."""
        return self.acceptance == Acceptance.TOKEN.value

    @property
    def values(self) -> tuple[Value, ...]:
        """The value of each factor."""
        values: tuple[Value, ...] = _VALUES(self)
        return values

    @property
    def name(self) -> str:
        """What a command line calls it; EAGLE, verifying everything, and a coin a draft go without saying."""
        first = () if self.algorithm == EAGLE else (self.algorithm.lower(),)
        plain = (f"page{self.page_size}", f"topk{self.topk}", self.pool)
        switched_on = (word for factor, word in SWITCHES.items() if vars(self)[factor])
        mode = (self.verify_mode,) if self.is_scheduled else ()
        rule = () if self.is_coin_by_token else (self.acceptance,)
        return "-".join((*first, self.worker, *plain, *switched_on, *mode, *rule))


FACTORS: dict[str, tuple[Any, ...]] = {
    "worker": ("v1", "v2"),
    "page_size": (1, 4, 16, 64),
    "topk": (1, 4, 16),
    "pool": tuple(kind.value for kind in PoolKind),
    "overlap": (False, True),
    "chunking": (False, True),
    "prefix_cache": (False, True),
    "algorithm": tuple(DRAFTERS),
    "verify_mode": tuple(mode.value for mode in VerifyMode),
    "acceptance": tuple(rule.value for rule in Acceptance),
}
"""Every factor with its values."""

NAMES = tuple(entry.name for entry in fields(Cell))
_VALUES = attrgetter(*NAMES)
SWITCHES = {"overlap": "overlap", "chunking": "chunks", "prefix_cache": "cache"}
"""Factors that are on or off, by the word that a name has where they are on."""

UNSAID = frozenset({EAGLE, VerifyMode.STATIC.value, Acceptance.TOKEN.value, False})
"""Values that a name has no word for."""


def all_cells() -> list[Cell]:
    """Return the full product, allowed or not, in the order of the factors."""
    return _product(FACTORS)


def cells_of(drafters: Iterable[str]) -> list[Cell]:
    """Return the same product of drafters that a module brings."""
    return _product({**FACTORS, "algorithm": tuple(drafters)})


def _product(factors: Mapping[str, tuple[Any, ...]]) -> list[Cell]:
    return [Cell(*values) for values in product(*(factors[name] for name in NAMES))]


def cell_named(name: str) -> Cell | None:
    """Return a cell of the product by its name, None if there is none.

    Of a drafter that a module may bring it is a cell that says nothing else than those of the product.
    """
    drafter, _, rest = name.partition("-")
    brought = _own_cell_named(rest) if drafter.isidentifier() else None
    is_own = brought is not None and brought.algorithm == EAGLE and drafter.upper() not in DRAFTERS
    return replace(brought, algorithm=drafter) if brought is not None and is_own else _own_cell_named(name)


def _own_cell_named(name: str) -> Cell | None:
    """Return a cell of the product, of which a few cells alone have values that the name has the words of."""
    possible = {
        factor: tuple(value for value in values if value in UNSAID or _word_of(factor, value) in name)
        for factor, values in FACTORS.items()
    }
    return next((cell for cell in _product(possible) if cell.name == name), None)


def _word_of(factor: str, value: Value) -> str:
    """Return what a name calls a value that it has a word for."""
    numbered = {"page_size": f"page{value}", "topk": f"topk{value}"}
    return SWITCHES.get(factor) or numbered.get(factor, str(value).lower())
