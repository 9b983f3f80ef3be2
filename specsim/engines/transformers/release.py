"""The installed transformers, whose draws come from coins where a call brings them."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from specsim.engines.adapter import Definition, Engine, open_engine

if TYPE_CHECKING:
    import torch

WRITTEN_FOR = "5.23.0"
GENERATION = "transformers.generation.utils"
LOGITS = "transformers.generation.logits_process"

COINS: "ContextVar[tuple[torch.Tensor, float] | None]" = ContextVar("coins", default=None)
"""Of the call in hand: one coin a draft, and that of the last token; None where it draws its own."""


@cache
def engine() -> Engine:
    """Return the installed transformers.

    Raises
    ------
    EngineNotInstalled
        It is not there.
    """
    return open_engine("transformers", WRITTEN_FOR, {GENERATION: {"torch": TorchWithCoins()}})


def in_release(name: str) -> Definition:
    """Name a definition of the module that generates."""
    return Definition(name, (GENERATION,))


@contextmanager
def drawing_with(coins: "torch.Tensor", final_coin: float) -> Iterator[None]:
    """Let what transformers draws in a block come from coins."""
    token = COINS.set((coins, final_coin))
    try:
        yield
    finally:
        COINS.reset(token)


class TorchWithCoins:
    """Torch as transformers sees it, but for the two functions that draw."""

    def __getattr__(self, name: str) -> Any:
        import torch

        return vars(torch)[name] if name in vars(torch) else getattr(torch, name)

    def rand_like(self, ratio: "torch.Tensor") -> "torch.Tensor":
        """Return the coins of the drafts."""
        import torch

        coins = COINS.get()
        return torch.rand_like(ratio) if coins is None else coins[0].to(ratio.dtype).reshape(ratio.shape)

    def multinomial(self, probabilities: "torch.Tensor", num_samples: int) -> "torch.Tensor":
        """Draw by the last coin from the running sum; like that of torch, it refuses what is no distribution."""
        import torch

        coins = COINS.get()
        if coins is None:
            return torch.multinomial(probabilities, num_samples)
        row = probabilities[0]
        if not bool(torch.isfinite(row).all()) or bool((row < 0).any()):
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        running = row.double().cumsum(0)
        above = running > coins[1] * running[-1]
        return above.int().argmax().reshape(1, num_samples)
