"""Sampling parameters of the requests of a worker, by request row, on the device."""

from collections.abc import Sequence

import torch
from torch import Tensor

from specsim.host.sampling import GREEDY, SamplingParameters

DTYPES = {
    "temperature": torch.float32,
    "top_k": torch.int32,
    "top_p": torch.float32,
    "min_p": torch.float32,
    "threshold_single": torch.float32,
    "threshold_acc": torch.float32,
    "seed": torch.int64,
}
"""Element type of every parameter, in the order in which the verification takes them; the seed comes last."""


class SamplingRows:
    """Sampling parameters by request row; a row without any, and the padding row, are greedy.

    Which rows are sampled is known on the host too, so that a greedy batch costs nothing.
    """

    def __init__(self, num_rows: int, device: torch.device) -> None:
        self._by_name = {
            name: torch.full((num_rows,), getattr(GREEDY, name), dtype=dtype, device=device)
            for name, dtype in DTYPES.items()
        }
        self._sampled: set[int] = set()

    def assign(self, rows: Sequence[int], parameters: Sequence[SamplingParameters | None]) -> None:
        """Write the parameters of joining requests; None is greedy."""
        where = torch.tensor(rows, dtype=torch.int64)
        for name, values in self._by_name.items():
            given = torch.tensor([getattr(one or GREEDY, name) for one in parameters], dtype=values.dtype)
            values[where.to(values.device)] = given.to(values.device)
        for row, one in zip(rows, parameters, strict=True):
            (self._sampled.discard if one is None or one.is_greedy else self._sampled.add)(row)

    def has_sampled(self, rows: Sequence[int]) -> bool:
        """Return whether any of these rows is sampled, without asking the device."""
        return not self._sampled.isdisjoint(rows)

    def gather(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Return every parameter of the requests of a batch, in the order of ``DTYPES``."""
        return tuple(self._by_name[name].index_select(0, rows) for name in DTYPES)
