"""The V2 worker of NGRAM in NumPy: texts wait by row, accepted KV always moves, and the store learns a step late."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.config import PoolSizes
from specsim.conformance.arrays import Array
from specsim.conformance.backend import load
from specsim.conformance.calls import CallsByName
from specsim.conformance.direct import Direct
from specsim.host.choice import TokenChoice
from specsim.host.ngram import NgramDraft, NgramParameters, NgramStore
from specsim.phases import Phase
from specsim.reference.worker.choices import ChoiceRows
from specsim.reference.worker.compact import move_accepted
from specsim.reference.worker.logprobs import tell
from specsim.reference.worker.pools import MakePools, Pools
from specsim.reference.worker.prefill import prefill_target
from specsim.reference.worker.trees import verify_input_of
from specsim.reference.worker.verify import verify
from specsim.simulation.logprobs import Told, alone
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.description import Side
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.moving import require_moves
from specsim.simulation.models.protocol import Model, require_model
from specsim.simulation.ngram import Texts, has_same_store, make_corpora, output_tokens
from specsim.simulation.requests import PromptChunk
from specsim.simulation.worker import Iteration, Proposals


class ReferenceNgramWorkerV2:
    """Match, verify, move, insert: it frees nothing, and ends no request.

    A draft needs the tokens of the iteration before on the host, so that iterations never overlap.

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
        BAD_CONFIGURATION: no model, or one that this worker cannot run; NO_MOVE: one whose KV cannot move.

    Notes
    -----
    Source: semantics A.13b, C.4.
    """

    name = "reference-ngram-v2"

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
        require_moves(description, (Side.TARGET,))
        self.parameters = parameters
        self.config = parameters.config
        self.model = model
        self.sizes = sizes
        self.device = "cpu"
        self._operations: CallsByName = operations or Direct(load("specsim.reference"))
        self._choices = ChoiceRows(sizes.num_rows)
        own = tuple(one for one in description.kv_components if one.side is Side.TARGET)
        self._pools = make_pools(replace(description, kv_components=own), sizes, reads)
        self.store: NgramStore = self._operations.host("NgramStore")(parameters) if store is None else store
        self._corpora = make_corpora(parameters, self._operations.host("NgramCorpus"))
        self._texts = Texts(parameters)
        self._phases: tuple[Phase, ...] = ()
        self._told: Told = ()

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
        for row, chunk, token in zip(rows, chunks, following.tolist(), strict=True):
            self._texts.begin(row, chunk.prompt[: chunk.end], token)
        self._told = tell(behind.row, behind.output, alone(len(rows)), following, self._choices, self._operations)
        return [int(token) for token in following]

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration; a draft has the nodes of the parameters, whatever number of steps is asked for."""
        self._pools.start_iteration()
        pools, operations = self._pools, self._operations
        row, num_nodes = np.array(rows, dtype=np.int64), self.parameters.num_draft_tokens
        said = [self._texts.last_tokens(one) for one in rows]
        seq_lens = np.array([self._texts.num_committed(one) for one in rows], dtype=np.int64)
        slots = pools.read_slots(row, seq_lens, num_nodes, operations)
        verify_input = verify_input_of(self._continue(said), num_nodes, seq_lens, slots, operations)
        verify_output, scratch, output = verify(
            row, verify_input, self.config.num_steps, self.model, pools, self._choices, operations
        )
        paths, predict, counts = verify_output.accept_index, verify_output.predict, verify_output.num_accepted_tokens
        self._told = tell(row, output, paths, predict, self._choices, operations)
        pools.commit_states(scratch, row, verify_input, paths, counts, operations)
        move_accepted(verify_input, verify_output, self.config.num_steps, pools, operations)
        tokens = output_tokens(predict, paths)
        for one, own, count in zip(rows, tokens.tolist(), counts.tolist(), strict=True):
            self._texts.go_on(one, own[:count])
        self._insert(rows, said)
        self._phases = (verify_input, verify_output)
        masks = verify_input.tree_mask.reshape(len(row), num_nodes, num_nodes)
        return Iteration(tokens, verify_output.num_accepted_drafts, counts, Proposals.of_trees(masks))

    def resized(self, parameters: NgramParameters) -> "ReferenceNgramWorkerV2":
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
        """Return the maps and pools by name; what starts a draft is text."""
        return self._pools.state()

    def _continue(self, texts: Sequence[Sequence[int]]) -> list[NgramDraft]:
        """Return a draft behind the end of each text."""
        sizes = self.parameters.num_draft_tokens, self.parameters.corpus_budget
        return [self._operations.draft_with_corpora(self.store, self._corpora, text, *sizes) for text in texts]

    def _insert(self, rows: Sequence[int], said: Sequence[Sequence[int]]) -> None:
        """Let the store have the ends of the texts of these rows, as they were in front of the verify."""
        for text in said:
            self.store.insert(text)
