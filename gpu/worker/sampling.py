"""Sampled requests on the device: parameters by request row, coins, and acceptance by chance."""

from collections.abc import Sequence

import torch
from torch import Tensor

from specsim import gpu
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

Accepted = tuple[Tensor, Tensor, Tensor]
Links = tuple[Tensor, Tensor, Tensor, Tensor]


class DeviceSampling:
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
        """Write the parameters of joining requests."""
        where = torch.tensor(rows, dtype=torch.int64)
        for name, values in self._by_name.items():
            given = torch.tensor([getattr(one or GREEDY, name) for one in parameters], dtype=values.dtype)
            values[where.to(values.device)] = given.to(values.device)
        for row, one in zip(rows, parameters, strict=True):
            (self._sampled.discard if one is None or one.is_greedy else self._sampled.add)(row)

    def has_sampled(self, rows: Sequence[int]) -> bool:
        """Return whether any of these rows is sampled, without asking the device."""
        return not self._sampled.isdisjoint(rows)

    def accept(
        self, rows: Tensor, links: Links, seq_lens: Tensor, logits: Tensor, target_predict: Tensor, num_steps: int
    ) -> Accepted:
        """Accept by chance; a greedy request keeps the choices of ``target_predict``.

        Parameters
        ----------
        rows : int64 [request]
            Request rows, padding 0.
        links : tuple
            Candidates and the three links, each int64 [request, node].
        seq_lens : int64 [request]
            Lengths that decide the coins, with the seeds.
        logits : float32 [request*node, vocab]
            For sampling.
        target_predict : int64 [request*node]
            The greedy choices.
        """
        temperature, top_k, top_p, min_p, single, acc, seed = (
            self._by_name[name].index_select(0, rows) for name in DTYPES
        )
        num_nodes = links[0].shape[1]
        is_greedy = (temperature == 0).repeat_interleave(num_nodes, output_size=len(target_predict))
        chosen = torch.full_like(logits, -1.0).scatter_(1, target_predict[:, None], 0.0)
        coins, final = gpu.generate_coins(seed, seq_lens, num_nodes)
        logits = torch.where(is_greedy[:, None], chosen, logits)
        return gpu.verify_tree_sampled_from_logits(
            *links, coins, final, logits, temperature, top_k, top_p, min_p, single, acc, num_steps
        )

    def first_tokens(self, rows: Tensor, lengths: Tensor, logits: Tensor, target_predict: Tensor) -> Tensor:
        """Return the token behind each prompt, int64 [request]: a verify of its last token without drafts."""
        number = torch.arange(len(rows), device=rows.device)[:, None]
        alone = torch.full_like(number, -1)
        links = (torch.zeros_like(number), number, alone, alone)
        predict, _, _ = self.accept(rows, links, lengths - 1, logits, target_predict, 0)
        return predict.long()
