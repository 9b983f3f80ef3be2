"""The transformer of the documentation once more: whole sequences, no cache, no batch, one position at a time."""

import cmath
import math

import numpy as np


def unit(vector):
    return vector / np.sqrt(np.mean(vector * vector) + 1e-6)


def turned(head, position, frequencies):
    """Rotate pairs as complex numbers."""
    half = len(head) // 2
    pairs = head[:half] + 1j * head[half:]
    pairs = pairs * np.array([cmath.exp(1j * position * rate) for rate in frequencies])
    return np.concatenate([pairs.real, pairs.imag])


def layer_over(layer, sizes, frequencies, sequence):
    """Return what a layer makes of a causal sequence of hidden states; position p is entry p."""
    group = sizes.num_heads // sizes.num_kv_heads
    weights = {name: value.cpu().numpy() for name, value in vars(layer).items()}
    heads = [unit(hidden) for hidden in sequence]
    after = []
    for position, hidden in enumerate(sequence):
        attended = []
        for head in range(sizes.num_heads):
            span = slice(head * sizes.head_dim, (head + 1) * sizes.head_dim)
            shared = slice(head // group * sizes.head_dim, (head // group + 1) * sizes.head_dim)
            query = turned((heads[position] @ weights["query"])[span], position, frequencies)
            keys = [turned((x @ weights["key"])[shared], p, frequencies) for p, x in enumerate(heads[: position + 1])]
            scores = np.array([query @ key / math.sqrt(sizes.head_dim) for key in keys])
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            values = [(x @ weights["value"])[shared] for x in heads[: position + 1]]
            attended.append(sum(share * value for share, value in zip(shares, values, strict=True)))
        middle = hidden + np.concatenate(attended) @ weights["output"]
        after.append(middle + np.tanh(unit(middle) @ weights["up"]) @ weights["down"])
    return after


def target_hidden(model, tokens):
    """Return the target's final hidden state after each token."""
    sequence = list(model.embedding.cpu().numpy()[list(tokens)])
    for layer in model.target:
        sequence = layer_over(layer, model.sizes, model.frequencies.tolist(), sequence)
    return sequence


def greedy_output(model, prompt, max_new_tokens):
    """Decode one prompt greedily, running the whole text again for every token."""
    tokens = list(prompt)
    for _ in range(max_new_tokens):
        logits = unit(target_hidden(model, tokens)[-1]) @ model.head.cpu().numpy()
        tokens.append(int(np.argmax(logits)))
    return tokens[len(prompt) :]


def chain_of_drafts(model, tokens, num_steps):
    """Return the drafts after a text whose last token is the bonus token, as the chain of ``num_steps`` proposes them.

    The draft's input at position p is the token of position p+1, and the target's hidden state of p if it is a
    committed position, else what the draft itself made of the position before.
    """
    embedding, head = model.embedding.cpu().numpy(), model.head.cpu().numpy()
    hidden = target_hidden(model, tokens[:-1])
    shifted, drafts = list(tokens[1:]), []
    for _ in range(num_steps):
        sequence = [embedding[token] for token in shifted]
        if model.description.has_draft_hidden:
            sequence = [one + 0.3 * unit(other) for one, other in zip(sequence, hidden, strict=True)]
        for layer in model.draft:
            sequence = layer_over(layer, model.sizes, model.frequencies.tolist(), sequence)
        drafts.append(int(np.argmax(unit(sequence[-1]) @ head)))
        shifted.append(drafts[-1])
        hidden = [*hidden, sequence[-1]]
    return drafts
