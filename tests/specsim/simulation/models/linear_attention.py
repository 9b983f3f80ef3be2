"""A target without KV: a decaying outer-product memory and a window of the last inputs, both recurrent, and a draft."""

import math

import torch

from specsim.simulation.models.batches import DraftOutput, TargetOutput
from specsim.simulation.models.description import ModelDescription, StateComponent

VOCAB, WIDTH, WINDOW, NUM_LAYERS, DECAY = 24, 12, 2, 2, 0.8


def unit(hidden):
    return hidden * torch.rsqrt((hidden * hidden).mean(dim=-1, keepdim=True) + 1e-6)


class LinearAttention:
    """Every forward keeps to shapes that the host knows, but for the prefill, which is not captured."""

    def __init__(self, seed, device):
        generator = torch.Generator().manual_seed(seed)

        def matrix(rows, columns):
            weights = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
            return (weights / math.sqrt(rows)).to(device)

        self.embedding = matrix(VOCAB, WIDTH) * math.sqrt(VOCAB)
        self.head = matrix(WIDTH, VOCAB)
        self.layers = [tuple(matrix(WIDTH, WIDTH) for _ in range(5)) for _ in range(NUM_LAYERS)]
        self.description = ModelDescription(
            name="LinearAttention",
            arrays="torch",
            vocab_size=VOCAB,
            kv_components=(),
            hidden_width=WIDTH,
            hidden_dtype="float64",
            draft_hidden_width=WIDTH,
            state_components=(
                StateComponent("memory", (WIDTH, WIDTH), "float64", NUM_LAYERS),
                StateComponent("window", (WINDOW, WIDTH), "float64", NUM_LAYERS),
            ),
        )

    def step(self, tokens, memories, windows):
        """Return the hidden states after one token a row, and the states of every layer after it."""
        hidden = self.embedding[tokens]
        after = []
        for (query, key, value, output, mixed), memory, window in zip(self.layers, memories, windows, strict=True):
            x = unit(hidden)
            seen = x + window.mean(dim=1) @ mixed
            memory = DECAY * memory + (seen @ key)[:, :, None] * (seen @ value)[:, None, :]
            window = torch.cat([window[:, 1:], x[:, None]], dim=1)
            hidden = hidden + torch.tanh(torch.einsum("rd,rde->re", seen @ query, memory) @ output)
            after.append((memory, window))
        return hidden, after

    def prefill(self, batch, kv, states):
        ends, hidden = batch.keys.cu_seqlens_q.tolist(), []
        for request, row in enumerate(batch.req_pool_indices.tolist()):
            for token in batch.input_ids[ends[request] : ends[request + 1]]:
                before = [[layer[row][None] for layer in states[name]] for name in ("memory", "window")]
                one, after = self.step(token[None], *before)
                hidden.append(one)
                for layer, (memory, window) in enumerate(after):
                    states["memory"][layer][row], states["window"][layer][row] = memory[0], window[0]
        return self._output(batch, torch.cat(hidden))

    def verify(self, batch, kv, states, scratch):
        num_requests, num_nodes = batch.parents.shape
        request = torch.arange(num_requests, device=batch.parents.device)
        tokens, hidden = batch.input_ids.view(num_requests, num_nodes), []
        for node in range(num_nodes):
            parent = batch.parents[:, node]
            before = [
                [
                    torch.where(
                        (parent < 0).view(-1, 1, 1),
                        committed[batch.req_pool_indices],
                        written[request, parent.clamp(min=0)],
                    )
                    for committed, written in zip(states[name], scratch[name], strict=True)
                ]
                for name in ("memory", "window")
            ]
            one, after = self.step(tokens[:, node], *before)
            hidden.append(one)
            for layer, (memory, window) in enumerate(after):
                scratch["memory"][layer][:, node], scratch["window"][layer][:, node] = memory, window
        return self._output(batch, torch.stack(hidden, dim=1).view(-1, WIDTH))

    def draft_step(self, batch, kv):
        return self._propose(batch)

    def draft_extend(self, batch, kv):
        drafted = self._propose(batch)
        return DraftOutput(drafted.probabilities[batch.select], drafted.hidden_states[batch.select])

    def _output(self, batch, hidden):
        chosen = hidden if batch.select is None else hidden[batch.select]
        return TargetOutput((unit(chosen) @ self.head).float(), hidden)

    def _propose(self, batch):
        hidden = self.embedding[batch.input_ids] + 0.5 * torch.tanh(batch.hidden_states)
        return DraftOutput((unit(hidden) @ self.head).softmax(dim=-1).float(), hidden)


def greedy_output(model, prompt, max_new_tokens):
    """Decode one prompt greedily from the start for every token."""
    tokens = list(prompt)
    for _ in range(max_new_tokens):
        memories = [torch.zeros(1, WIDTH, WIDTH, dtype=torch.float64)] * NUM_LAYERS
        windows = [torch.zeros(1, WINDOW, WIDTH, dtype=torch.float64)] * NUM_LAYERS
        for token in tokens:
            hidden, after = model.step(torch.tensor([token]), memories, windows)
            memories, windows = zip(*after, strict=True)
        tokens.append(int((unit(hidden) @ model.head).argmax()))
    return tokens[len(prompt) :]
