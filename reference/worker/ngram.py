"""The V1 worker of NGRAM in NumPy: drafts come from a store on the host, so there is no draft model and no extend."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.assertion import require
from specsim.config import PoolSizes
from specsim.conformance.arrays import Array
from specsim.conformance.backend import load
from specsim.conformance.calls import CallsByName
from specsim.conformance.direct import Direct
from specsim.host.choice import TokenChoice
from specsim.host.ngram import NgramDraft, NgramParameters, NgramStore
from specsim.phases import Phase, VerifyInput
from specsim.reference.worker.choices import ChoiceRows
from specsim.reference.worker.logprobs import tell
from specsim.reference.worker.pools import MakePools, Pools
from specsim.reference.worker.prefill import prefill_target
from specsim.reference.worker.reclaim import reclaim
from specsim.reference.worker.trees import verify_input_of
from specsim.reference.worker.verify import verify
from specsim.simulation.logprobs import Told, alone
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.description import Side
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.moving import require_moves
from specsim.simulation.models.protocol import Model, require_model
from specsim.simulation.ngram import BRANCHES, has_same_store, last_tokens, make_corpora
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.worker import Iteration, Proposals


class ReferenceNgramWorker:
    """Match, verify, end requests, free what was rejected, insert: one step after another.

    Parameters
    ----------
    parameters : NgramParameters
        The store, and the number of nodes of a draft.
    model : Model
        Its target, on NumPy arrays; its draft is never asked.
    sizes : PoolSizes
        Slots, rows and row width.
    operations : CallsByName, optional
        Who computes, the store included; the oracle by default.
    reads : Reads
        How much of the pools the forwards of a model read that can keep what it has read.
    make_pools : callable
        Makes the pools.
    store : NgramStore, optional
        One that was made for these parameters, but for the number of nodes; an empty one by default.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: no model, or one that this worker cannot run; NO_MOVE: one whose KV would have to move, and
        cannot.

    Notes
    -----
    Source: semantics A.13, A.13b.
    """

    name = "reference-ngram"

    def __init__(
        self,
        parameters: NgramParameters,
        model: Model[Array],
        sizes: PoolSizes,
        operations: CallsByName | None = None,
        reads: Reads = Reads.FULL,
        make_pools: MakePools = Pools.of,
        store: NgramStore | None = None,
    ) -> None:
        description = require_model(model, "numpy")
        self.parameters = parameters
        self.config = parameters.config
        self.model = model
        self.sizes = sizes
        self.device = "cpu"
        # What is accepted moves to the front of its pages; of single slots the map follows the KV.
        require_moves(description, (Side.TARGET,) if sizes.page_size > 1 else ())
        self._operations: CallsByName = operations or Direct(load("specsim.reference"))
        self._choices = ChoiceRows(sizes.num_rows)
        own = tuple(one for one in description.kv_components if one.side is Side.TARGET)
        self._pools = make_pools(replace(description, kv_components=own), sizes, reads)
        self.store: NgramStore = self._operations.host("NgramStore")(parameters) if store is None else store
        self._corpora = make_corpora(parameters, self._operations.host("NgramCorpus"))
        self._phases: tuple[Phase, ...] = ()
        self._told: Told = ()

    def keep_books(self, ledger: IterationLedger) -> None:
        """Take the books of the engine that drives the worker."""
        self._ledger = ledger

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._pools.assign_slots(ranges, self._operations)

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen."""
        self._choices.assign(rows, choices)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts through the target; return the token behind each."""
        self._pools.start_iteration()
        behind = prefill_target(rows, chunks, self.model, self._pools, self._choices, self._operations)
        following = behind.following.astype(np.int32)
        self._told = tell(behind.row, behind.output, alone(len(rows)), following, self._choices, self._operations)
        return [int(token) for token in following]

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration; a draft has the nodes of the parameters, whatever number of steps is asked for."""
        self._pools.start_iteration()
        requests = self._ledger.requests
        known = [request.row for request in requests]
        require(known == list(rows), "rows of the batch", known, list(rows))
        row = np.array(rows, dtype=np.int64)
        phase = self._draft(row, requests)
        verify_output, scratch, output = verify(
            row, phase, self.config.num_steps, self.model, self._pools, self._choices, self._operations
        )
        paths, predict = verify_output.accept_index, verify_output.predict
        self._told = tell(row, output, paths, predict, self._choices, self._operations)
        truncation = self._ledger.end_requests(paths, predict, self._operations.truncate_at_stop)
        everyone, _ = reclaim(
            row,
            phase,
            verify_output,
            truncation,
            BRANCHES,
            self.sizes.page_size,
            self._pools,
            self._ledger.free,
            self._operations,
        )
        counts = everyone.num_accepted_tokens
        self._pools.commit_states(scratch, row, phase, truncation.accept_index, counts, self._operations)
        kept = np.split(everyone.out_cache_loc, np.cumsum(counts)[:-1])
        self._ledger.commit([slots.tolist() for slots in kept[: len(row)]])
        self._insert(requests)
        self._phases = (phase, verify_output)
        num_nodes = self.parameters.num_draft_tokens
        masks = phase.tree_mask.reshape(len(row), num_nodes, num_nodes)
        return Iteration.of(truncation, num_nodes, Proposals.of_trees(masks))

    def resized(self, parameters: NgramParameters) -> "ReferenceNgramWorker":
        """Return a worker of other parameters in the same pools and maps, on the same store if it fits."""
        return type(self)(
            parameters,
            self.model,
            self.sizes,
            self._operations,
            make_pools=lambda *_: self._pools,
            store=self.store if has_same_store(self.parameters, parameters) else None,
        )

    def told(self) -> Told:
        """Return what is told of the tokens of the last prefill or iteration."""
        return self._told

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over."""
        return self._phases

    def state(self) -> dict[str, Any]:
        """Return the maps and pools by name; what starts a draft is text, which requests have."""
        return self._pools.state()

    def _draft(self, row: Array, requests: Sequence[Request]) -> VerifyInput:
        """Continue each text, its last token included, and read the links of the trees from their masks."""
        num_nodes = self.parameters.num_draft_tokens
        drafts = self._continue(requests)
        seq_lens = np.array([request.num_committed for request in requests], dtype=np.int64)
        self.assign_slots(self._ledger.allocate_verify_slots(num_nodes))
        slots = self._pools.read_slots(row, seq_lens, num_nodes, self._operations)
        return verify_input_of(drafts, num_nodes, seq_lens, slots, self._operations)

    def _continue(self, requests: Sequence[Request]) -> list[NgramDraft]:
        """Return a draft behind each text."""
        parameters = self.parameters
        sizes = parameters.num_draft_tokens, parameters.corpus_budget
        texts = [self._last_tokens(request) for request in requests]
        return [self._operations.draft_with_corpora(self.store, self._corpora, text, *sizes) for text in texts]

    def _insert(self, requests: Sequence[Request]) -> None:
        """Let the store have what was said, up to the last token of each text, also of those that end."""
        for request in requests:
            self.store.insert(self._last_tokens(request))

    def _last_tokens(self, request: Request) -> list[int]:
        """Return the end of a text that fills a path of the store."""
        return last_tokens(request, self.parameters)
