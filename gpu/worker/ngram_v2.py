"""The production V2 worker of NGRAM: texts wait by row on the host, and accepted KV moves in a graph of its own.

A draft needs the tokens of the verify before it, so that the host waits for the device once an iteration.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from specsim.config import PoolSizes
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.logprobs import Scored, told_by
from specsim.gpu.worker.pools import Pools, flat_ranges
from specsim.gpu.worker.transfer import download, on_host, send, upload
from specsim.gpu.worker.tree_runner import TreeRunner
from specsim.gpu.worker.trees import GrownTrees
from specsim.host.choice import TokenChoice
from specsim.host.ngram import NgramParameters, NgramStore, draft_with_corpora
from specsim.phases import Phase, VerifyInput, VerifyOutput
from specsim.simulation.logprobs import Told
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.description import Side
from specsim.simulation.models.moving import require_moves
from specsim.simulation.models.protocol import Model, require_model
from specsim.simulation.ngram import Texts, has_same_store, make_corpora, masks_of, output_tokens
from specsim.simulation.requests import PromptChunk
from specsim.simulation.worker import Iteration, Proposals


class GpuNgramWorkerV2:
    """Match, verify, move, insert: it frees nothing, and ends no request.

    Parameters are those of ``GpuNgramWorker``. The links of the trees, the target's forward, acceptance and the moves
    run as captured graphs on a GPU, eagerly elsewhere.

    Raises
    ------
    SpecRejection
        As for ``GpuNgramWorker``; NO_MOVE: a model whose KV cannot move, on pages of any size.

    Notes
    -----
    Source: semantics A.13b, C.4.
    """

    name = "gpu-ngram-v2"

    def __init__(
        self,
        parameters: NgramParameters,
        model: Model[Tensor],
        sizes: PoolSizes,
        use_graphs: bool | None = None,
        pads: bool = False,
        pools: Pools | None = None,
        store: NgramStore | None = None,
    ) -> None:
        require_moves(require_model(model, "torch"), (Side.TARGET,))
        self.parameters = parameters
        self.config = parameters.config
        self.model = model
        self.sizes = sizes
        self._runner = TreeRunner(self.config, model, sizes, use_graphs, pads, moves=True, pools=pools)
        self._pads = pads
        self.use_graphs, self.device = self._runner.use_graphs, self._runner.device
        self.store = NgramStore(parameters) if store is None else store
        self._corpora = make_corpora(parameters)
        self._texts = Texts(parameters)
        self._phases: tuple[VerifyInput, VerifyOutput] | None = None
        self._scored: tuple[Scored | None, int] = None, 0

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._runner.pools.assign_slots(upload(flat_ranges(ranges), DEVICE))

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen."""
        self._runner.choices.assign(rows, choices)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts through the target; return the token behind each."""
        following, scored = self._runner.prefill(rows, chunks)
        for row, chunk, token in zip(rows, chunks, following, strict=True):
            self._texts.begin(row, chunk.prompt[: chunk.end], token)
        self._scored = scored, len(rows)
        return following

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration; a draft has the nodes of the parameters, whatever number of steps is asked for.

        The host waits for the device once, and once more for trees that a grammar looks at.
        """
        runner, num_nodes, num_live = self._runner, self.parameters.num_draft_tokens, len(rows)
        said = [self._texts.last_tokens(row) for row in rows]
        sizes = num_nodes, self.parameters.corpus_budget
        drafts = [draft_with_corpora(self.store, self._corpora, text, *sizes) for text in said]
        lengths, grown = [self._texts.num_committed(row) for row in rows], [draft.tokens for draft in drafts]
        row, seq_lens, draft_token = upload([rows, lengths, grown], DEVICE)
        masks = masks_of(drafts, num_nodes)
        tree_mask = send(masks, DEVICE)
        window = runner.pools.read_slots(row, seq_lens, num_nodes)
        stages, scored = runner.verify(GrownTrees(row, seq_lens, draft_token, window, tree_mask), rows)
        stages.move()
        # NOTE: the store learns what was in front of this verify while the device is busy with it.
        for text in said:
            self.store.insert(text)
        phase = stages.verify_output
        self._scored, self._phases = (scored, num_live), (stages.verify_input, phase)
        predict, paths, num_accepted_drafts, num_accepted_tokens = download(
            [
                phase.predict[: num_live * num_nodes],
                phase.accept_index[:num_live],
                phase.num_accepted_drafts[:num_live],
                phase.num_accepted_tokens[:num_live],
            ]
        )
        tokens = output_tokens(predict, paths)
        for one, own, count in zip(rows, tokens.tolist(), num_accepted_tokens.tolist(), strict=True):
            self._texts.go_on(one, own[:count])
        return Iteration(tokens, num_accepted_drafts, num_accepted_tokens, Proposals.of_trees(masks))

    def resized(self, parameters: NgramParameters) -> "GpuNgramWorkerV2":
        """Return a worker of other parameters in the same maps and KV, with graphs of its own."""
        store = self.store if has_same_store(self.parameters, parameters) else None
        pools = self._runner.pools
        return type(self)(parameters, self.model, self.sizes, self.use_graphs, self._pads, pools, store)

    def told(self) -> Told:
        """Return what is told of the tokens of the last prefill or iteration."""
        return told_by(*self._scored)

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over, live rows only, as NumPy arrays."""
        return () if self._phases is None else tuple(on_host(phase, self._scored[1]) for phase in self._phases)

    def state(self) -> dict[str, Any]:
        """Return the maps and pools by name; what starts a draft is text."""
        return self._runner.state()
