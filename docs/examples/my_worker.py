"""A decode loop of one's own, whole: greedy chains on V2, with KV of its own; it inherits nothing.

``specsim check my_worker``, ``specsim soak my_worker`` and ``specsim matrix my_worker`` try it in this folder.
"""

import numpy as np

from specsim.phases import DraftExtendInput, DraftInput, VerifyInput, VerifyOutput
from specsim.rejection import contradiction
from specsim.simulation.models.batches import DraftExtendBatch, DraftStepBatch, ListedKeys, PagedKeys, TargetBatch
from specsim.simulation.models.description import Side
from specsim.simulation.worker import Iteration

WORKER = "my_worker.ChainWorker"
WORKERS = {"standalone_v2": WORKER}


class ChainWorker:
    """Draft a chain, verify it, and let the draft catch up; what a request carries lies in its row."""

    def __init__(self, config, model, sizes):
        facts = model.description
        for what, got, expected in (
            ("topk", config.topk, 1),
            ("components of recurrent state", len(facts.state_components), 0),
            ("components with a sliding window", len(facts.swa_components), 0),
        ):
            if got != expected:
                # What this worker does not take it says by name: the drivers leave it out and say so.
                raise contradiction(what, got, str(expected), "this worker drafts chains over plain KV")
        self.name, self.device = "chains", "cpu"
        self.config, self.model, self.sizes = config, model, sizes
        self.req_to_token = np.zeros((sizes.num_rows, sizes.row_width), np.int32)
        self.kv = {side: self.buffers(facts.components_of(side)) for side in Side}
        self.carried = {
            "seq_lens": np.zeros(sizes.num_rows, np.int64),
            "bonus_tokens": np.zeros(sizes.num_rows, np.int32),
            "topk_p": np.zeros((sizes.num_rows, 1), np.float32),
            "topk_index": np.zeros((sizes.num_rows, 1), np.int64),
        }
        if facts.has_draft_hidden:
            self.carried["hidden_states"] = np.zeros((sizes.num_rows, facts.draft_hidden_width), facts.hidden_dtype)
        self.handed_over = ()

    def buffers(self, components):
        """Return empty KV: one buffer a layer, by the name of the component."""
        return {
            one.name: [np.zeros(one.buffer_shape(self.sizes.num_slots), one.dtype) for _ in range(one.num_layers)]
            for one in components
        }

    def check_request(self, request):
        """Refuse what is sampled or constrained; an engine asks when a request is submitted."""
        rules = (request.grammar, request.processor, request.logit_rules)
        if not request.is_greedy or any(one is not None for one in rules):
            because = "this worker takes the likeliest token"
            raise contradiction("a request", "sampled or constrained", "plainly greedy", because)

    def assign_slots(self, ranges):
        """Write allocated slots into the map."""
        for given in ranges:
            self.req_to_token[given.row, given.start : given.end] = given.slots

    def assign_choices(self, rows, choices):
        """Keep nothing: every request is greedy."""

    def prefill(self, rows, chunks):
        """Run chunks of prompts through target and draft, and return the token after each."""
        row = np.array(rows, np.int64)
        starts, ends = (np.array([getattr(chunk, name) for chunk in chunks], np.int64) for name in ("start", "end"))
        input_ids = np.concatenate([np.array(chunk.tokens, np.int64) for chunk in chunks])
        positions = np.concatenate([np.arange(chunk.start, chunk.end) for chunk in chunks])
        cu_lengths = np.concatenate([[0], np.cumsum(ends - starts)])
        out_cache_loc = self.req_to_token[np.repeat(row, ends - starts), positions].astype(np.int64)
        keys, last = self.keys_of(row, ends, cu_lengths), cu_lengths[1:] - 1
        batch = self.target_batch(row, input_ids, positions, out_cache_loc, starts, keys, None, last)
        output = self.model.prefill(batch, self.kv[Side.TARGET], {})
        chosen = np.argmax(output.logits, axis=1).tolist()
        # After a chunk that ends its prompt comes the first output token, after any other the prompt's own next one.
        pairs = zip(chunks, chosen, strict=True)
        following = [token if chunk.next_token is None else chunk.next_token for chunk, token in pairs]
        shifted = np.roll(input_ids, -1)
        shifted[last] = following
        self.extend(row, shifted, positions, out_cache_loc, keys, output.hidden_states, last, ends, following)
        return following

    def decode(self, rows, num_steps=None):
        """Run one iteration: draft, verify, accept, extend."""
        row, num_steps = np.array(rows, np.int64), self.config.num_steps if num_steps is None else num_steps
        carried = {name: values[row] for name, values in self.carried.items()}
        draft_input = DraftInput(req_pool_indices=row, **{"hidden_states": None, **carried})
        verify_input = self.chain_of(draft_input, self.draft(draft_input, num_steps))
        width, seq_lens = verify_input.num_draft_tokens, verify_input.seq_lens
        positions, slots = verify_input.positions, verify_input.out_cache_loc
        keys = self.keys_of(row, seq_lens + width, np.arange(len(row) + 1) * width)
        tokens, mask = verify_input.draft_token, verify_input.tree_mask
        batch = self.target_batch(row, tokens, positions, slots, seq_lens, keys, mask, None)
        output = self.model.verify(batch, self.kv[Side.TARGET], {}, {})
        predict = np.argmax(output.logits, axis=1).astype(np.int32)
        verify_output = self.accept(verify_input, predict, output.hidden_states)
        num_accepted_tokens = verify_output.num_accepted_tokens
        extend_input = DraftExtendInput(
            input_ids=predict.astype(np.int64),
            hidden_states=output.hidden_states,
            positions=positions,
            out_cache_loc=slots,
            forward_seq_lens=seq_lens + width,
            num_accepted_drafts=verify_output.num_accepted_drafts,
            num_accepted_tokens=num_accepted_tokens,
            select_index=np.arange(len(row)) * width + num_accepted_tokens - 1,
            num_draft_tokens=width,
        )
        after = (extend_input.select_index, seq_lens + num_accepted_tokens, verify_output.bonus_tokens)
        self.extend(row, extend_input.input_ids, positions, slots, keys, output.hidden_states, *after)
        self.handed_over = (draft_input, verify_input, verify_output, extend_input)
        return Iteration(predict.reshape(-1, width), verify_output.num_accepted_drafts, num_accepted_tokens)

    def draft(self, phase, num_steps):
        """Return the root and a token a step, int64 [request, step+1]; the last step runs no forward."""
        row, seq_lens, hot = phase.req_pool_indices, phase.seq_lens, self.model.description.hot_token_id
        hidden_states, proposed, tokens = phase.hidden_states, phase.topk_index[:, 0], [phase.bonus_tokens]
        for step in range(num_steps):
            tokens.append(proposed if hot is None else hot[proposed])
            if step < num_steps - 1:
                seen = seq_lens + step + 1
                keys = [self.req_to_token[one, :count] for one, count in zip(row, seen, strict=True)]
                kv_indices = np.concatenate([np.zeros(0, np.int32), *keys])
                kv_indptr = np.concatenate([[0], np.cumsum(seen)]).astype(np.int32)
                listed = ListedKeys(kv_indices, kv_indptr, self.sizes.row_width)
                slots = self.req_to_token[row, seq_lens + step].astype(np.int64)
                batch = DraftStepBatch(row, tokens[-1], seq_lens + step, slots, listed, hidden_states, step + 2)
                drafted = self.model.draft_step(batch, self.kv[Side.DRAFT])
                hidden_states, proposed = drafted.hidden_states, np.argmax(drafted.probabilities, axis=1)
        return np.stack(tokens, axis=1).astype(np.int64)

    def chain_of(self, phase, tokens):
        """Return chains as trees in which every node has one child."""
        num_requests, width = tokens.shape
        places = phase.seq_lens[:, None] + np.arange(width)
        next_token = np.tile(np.append(np.arange(1, width), -1), (num_requests, 1))
        return VerifyInput(
            draft_token=tokens.reshape(-1),
            retrieve_index=np.arange(num_requests * width).reshape(num_requests, width),
            retrieve_next_token=next_token,
            retrieve_next_sibling=np.full_like(next_token, -1),
            positions=places.reshape(-1),
            tree_mask=np.tile(np.tri(width, dtype=np.bool_).reshape(-1), num_requests),
            out_cache_loc=self.req_to_token[phase.req_pool_indices[:, None], places].reshape(-1).astype(np.int64),
            seq_lens=phase.seq_lens,
            num_draft_tokens=width,
        )

    def accept(self, phase, predict, hidden_states):
        """Accept drafts as long as each is what the target chooses after the token before it."""
        width = phase.num_draft_tokens
        drafts, predicted = phase.draft_token.reshape(-1, width), predict.reshape(-1, width)
        is_right = np.cumprod(drafts[:, 1:] == predicted[:, :-1], axis=1)
        num_accepted_drafts = is_right.sum(axis=1).astype(np.int32)
        is_accepted = np.arange(width) <= num_accepted_drafts[:, None]
        return VerifyOutput(
            target_predict=predict.astype(np.int64),
            predict=predict,
            accept_index=np.where(is_accepted, phase.retrieve_index, -1).astype(np.int32),
            num_accepted_drafts=num_accepted_drafts,
            num_accepted_tokens=num_accepted_drafts + 1,
            bonus_tokens=predicted[np.arange(len(drafts)), num_accepted_drafts],
            hidden_states=hidden_states,
        )

    def extend(self, row, input_ids, positions, slots, keys, hidden_states, select, seq_lens, bonus_tokens):
        """Let the draft catch up, and keep by row what starts the next draft."""
        batch = DraftExtendBatch(row, input_ids, positions, slots, keys, hidden_states, select)
        drafted = self.model.draft_extend(batch, self.kv[Side.DRAFT])
        best = np.argmax(drafted.probabilities, axis=1)[:, None]
        self.carried["seq_lens"][row] = seq_lens
        self.carried["bonus_tokens"][row] = bonus_tokens
        self.carried["topk_p"][row] = np.take_along_axis(drafted.probabilities, best, axis=1)
        self.carried["topk_index"][row] = best
        if drafted.hidden_states is not None:
            self.carried["hidden_states"][row] = drafted.hidden_states

    def keys_of(self, row, ends, cu_lengths):
        """Return the slots of all positions of each request, up to its end."""
        page_table = self.req_to_token[row, : ends.max(initial=0)]
        return PagedKeys(page_table, ends.astype(np.int32), cu_lengths.astype(np.int32), 1)

    def target_batch(self, row, input_ids, positions, slots, prefix_lens, keys, tree_mask, select):
        """Return what the target is to run."""
        layers = self.model.description.hidden_layers
        rest = {"parents": None, "select": select, "hidden_layers": layers, "is_sampled": False}
        return TargetBatch(row, input_ids, positions, slots, prefix_lens, keys, tree_mask, **rest)

    def phases(self):
        """Return what the phases of the last iteration handed over: lockstep compares it."""
        return self.handed_over

    def state(self):
        """Return maps, pools and what is carried, by the names that the laws know."""
        target, draft = (self.layers(side) for side in (Side.TARGET, Side.DRAFT))
        return {"req_to_token": self.req_to_token, "target_kv": target, "draft_kv": draft, "states": [], **self.carried}

    def layers(self, side):
        """Return the buffers of every component: those of the first layer, then those of the next."""
        columns = self.kv[side].values()
        most = max(map(len, columns), default=0)
        return [column[layer] for layer in range(most) for column in columns if layer < len(column)]
