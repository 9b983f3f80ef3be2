"""The production V1 worker of NGRAM: drafts come from a store on the host, everything else lies on the device.

The host waits for the device once an iteration, to see what was accepted. What the store and the ends of requests
decide goes up without waiting, and while the device moves what is kept, the store takes in what was said.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from specsim.assertion import require
from specsim.config import PoolSizes
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.ends import end_requests
from specsim.gpu.worker.logprobs import Scored, told_by
from specsim.gpu.worker.pools import Pools, flat_ranges
from specsim.gpu.worker.reclaim import reclaim
from specsim.gpu.worker.transfer import on_host, send, upload
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
from specsim.simulation.ngram import has_same_store, last_tokens, make_corpora, masks_of
from specsim.simulation.requests import PromptChunk
from specsim.simulation.sides import BRANCHES
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.worker import Iteration, Proposals


class GpuNgramWorker:
    """Match, verify, end requests, free what was rejected, insert.

    The links of the trees, the target's forward and acceptance run as captured graphs on a GPU, eagerly elsewhere.

    Parameters
    ----------
    parameters : NgramParameters
        The store, texts from outside, and the number of nodes of a draft.
    model : Model
        Its target, on torch tensors; its draft is never asked.
    sizes : PoolSizes
        Slots, rows and row width.
    use_graphs : bool, optional
        Capture and replay; by default wherever there is a GPU and the model can be captured.
    pads : bool
        Pad batches to buckets in eager mode too; graphs always do.
    pools : Pools, optional
        Those of a worker of other parameters, to go on in.
    store : NgramStore, optional
        One that was made for these parameters, but for the number of nodes; an empty one by default.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: no model, one that this worker cannot run, or graphs of a model that cannot be captured;
        NO_MOVE: a model whose KV would have to move, and cannot; WRONG_DEVICE: graphs were asked for where there is no
        GPU.

    Notes
    -----
    Source: semantics A.13, A.13b.
    """

    name = "gpu-ngram"

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
        require_moves(require_model(model, "torch"), (Side.TARGET,) if sizes.page_size > 1 else ())
        self.parameters = parameters
        self.config = parameters.config
        self.model = model
        self.sizes = sizes
        self._runner = TreeRunner(self.config, model, sizes, use_graphs, pads, moves=False, pools=pools)
        self._pads = pads
        self.use_graphs, self.device = self._runner.use_graphs, self._runner.device
        self.store = NgramStore(parameters) if store is None else store
        self._corpora = make_corpora(parameters)
        self._phases: tuple[VerifyInput, VerifyOutput] | None = None
        self._scored: tuple[Scored | None, int] = None, 0

    def keep_books(self, ledger: IterationLedger) -> None:
        """Take the books of the engine that drives the worker."""
        self._ledger = ledger

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._runner.pools.assign_slots(upload(flat_ranges(ranges), DEVICE))

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen."""
        self._runner.choices.assign(rows, choices)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts through the target; return the token behind each."""
        following, scored = self._runner.prefill(rows, chunks)
        self._scored = scored, len(rows)
        return following

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration; a draft has the nodes of the parameters, whatever number of steps is asked for.

        The host waits for the device once, and once more for trees that a grammar looks at.
        """
        runner, num_nodes, requests = self._runner, self.parameters.num_draft_tokens, self._ledger.requests
        known = [request.row for request in requests]
        require(known == list(rows), "rows of the batch", known, list(rows))
        texts = [last_tokens(request, self.parameters) for request in requests]
        sizes = num_nodes, self.parameters.corpus_budget
        drafts = [draft_with_corpora(self.store, self._corpora, text, *sizes) for text in texts]
        given = self._ledger.allocate_verify_slots(num_nodes)
        lengths, tokens = [request.num_committed for request in requests], [draft.tokens for draft in drafts]
        *there, row, seq_lens, draft_token = upload([*flat_ranges(given), rows, lengths, tokens], DEVICE)
        masks = masks_of(drafts, num_nodes)
        window, tree_mask = there[-1], send(masks, DEVICE)
        runner.pools.assign_slots(there)
        stages, scored = runner.verify(GrownTrees(row, seq_lens, draft_token, window, tree_mask), rows)
        self._scored = scored, len(rows)
        truncation = end_requests(stages.verify_output, len(rows), num_nodes, self._ledger)
        reclaim(
            row,
            seq_lens,
            num_nodes,
            window,
            given,
            truncation,
            BRANCHES,
            self.sizes.page_size,
            stages.scratch,
            runner.pools,
            self._ledger,
        )
        for request in requests:
            self.store.insert(last_tokens(request, self.parameters))
        self._phases = (stages.verify_input, stages.verify_output)
        return Iteration.of(truncation, num_nodes, Proposals.of_trees(masks))

    def resized(self, parameters: NgramParameters) -> "GpuNgramWorker":
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
        """Return the maps and pools by name; what starts a draft is text, which requests have."""
        return self._runner.state()
