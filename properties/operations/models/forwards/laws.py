"""Laws of the target's forward: it sees exactly what it should, and whatever it sees shows."""

from itertools import pairwise

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Case, outputs_of, require, require_equal, states
from specsim.properties.laws.links import closure_of
from specsim.properties.operations.models.forwards.scenes import (
    empty_pool,
    layout,
    prefill,
    scenes,
    split_rows,
    target_pass,
    tree_pass,
    tree_scenes,
)


def entries_say_where_they_come_from(backend: Backend, scene: Case) -> None:
    """An entry holds its position, its token, the fold of the layer below and its component."""
    forward = prefill(backend, scene)
    folds = split_rows(forward["hidden_states"], [len(tokens) for tokens in scene["tokens"]])
    for component, buffer in enumerate(forward["kv_buffers"]):
        for request, (tokens, slots) in enumerate(zip(scene["tokens"], scene["slots"], strict=True)):
            below = folds[request][:, component // 2 - 1] if component >= 2 else np.zeros_like(tokens)
            expected = np.stack([np.arange(len(tokens)), tokens, below, np.full_like(tokens, component)], axis=1)
            require_equal(f"component {component} of request {request}", buffer[slots], expected)
        require_equal(f"the unused slots of component {component}", buffer[scene["spare"]], 0 * buffer[scene["spare"]])


def context_word_is_the_last_tokens(backend: Backend, scene: Case) -> None:
    """The last word of a hidden state holds the last four tokens, newest in the low byte."""
    rows = split_rows(prefill(backend, scene)["hidden_states"][:, -1], [len(tokens) for tokens in scene["tokens"]])
    for request, tokens in enumerate(scene["tokens"]):
        for position, word in enumerate(rows[request].tolist()):
            expected = int.from_bytes(bytes(tokens[max(position - 3, 0) : position + 1].tolist()), "big")
            require_equal(f"the context word of request {request} at {position}", word, expected)


def chunked_prefill_equals_one_pass(backend: Backend, scene: Case) -> None:
    """A prompt in one pass, in two chunks and token by token leaves the same states and the same cache."""
    lengths = [len(tokens) for tokens in scene["tokens"]]
    whole = prefill(backend, scene)
    rows = split_rows(whole["hidden_states"], lengths)
    by_token = [[min(step, length) for length in lengths] for step in range(max(lengths) + 1)]
    for bounds in ([[0] * len(lengths), scene["cuts"], lengths], by_token):
        buffers = empty_pool(scene)
        for first, last in pairwise(bounds):
            forward = target_pass(backend, scene, buffers, first, last)
            buffers = forward["kv_buffers"]
            for request, part in enumerate(split_rows(forward["hidden_states"], np.subtract(last, first).tolist())):
                expected = rows[request][first[request] : last[request]]
                require_equal(f"the states of request {request} from {first[request]}", part, expected)
        for component, buffer in enumerate(buffers):
            require_equal(f"component {component} of the cache", buffer[1:], whole["kv_buffers"][component][1:])


def tree_path_equals_its_sequence(backend: Backend, scene: Case) -> None:
    """A node's hidden state is that of the plain sequence of its path."""
    squares = np.stack([closure_of(parents) for parents in scene["parents"]])
    states = tree_pass(backend, scene, prefill(backend, scene, scene["cuts"])["kv_buffers"], squares)
    for request, square in enumerate(squares):
        prefix = scene["cuts"][request]
        for node, path in enumerate(square):
            tokens = np.concatenate([scene["tokens"][request][:prefix], scene["node_tokens"][request][path]])
            slots = np.concatenate([scene["slots"][request][:prefix], scene["node_slots"][request][path]])
            expected = prefill(backend, {**scene, "tokens": [tokens], "slots": [slots]})["hidden_states"][-1]
            require_equal(f"the state of node {node} of request {request}", states[request, node], expected)


def mask_bits_matter(backend: Backend, scene: Case) -> None:
    """Changing what one node may see changes its hidden state, and that of no one who does not see it."""
    squares = np.stack([closure_of(parents) for parents in scene["parents"]])
    cache = prefill(backend, scene, scene["cuts"])["kv_buffers"]
    states = tree_pass(backend, scene, cache, squares)
    num_requests, num_nodes, _ = squares.shape
    random = np.random.default_rng(scene["seed"])
    request, node, other = (int(random.integers(0, size)) for size in (num_requests, num_nodes, num_nodes))
    if node == other:
        return
    flipped = squares.copy()
    flipped[request, node, other] ^= True
    changed = tree_pass(backend, scene, cache, flipped)
    what = f"the state of node {node} of request {request}, its view of node {other} flipped"
    require((changed[request, node] != states[request, node]).any(), what, "unchanged", "another")
    blind = ~squares[:, :, node]
    blind[np.arange(num_requests) != request] = True
    blind[request, node] = False
    require_equal("the states of nodes that do not see it", changed[blind], states[blind])


def visible_entries_matter(backend: Backend, scene: Case) -> None:
    """Changing any word of any component of a prefix entry changes the states of its request, and no other."""
    cuts = scene["cuts"]
    ends = [cut + 1 for cut in cuts]
    cache = prefill(backend, scene, cuts)["kv_buffers"]
    states = target_pass(backend, scene, cache, cuts, ends)["hidden_states"]
    random = np.random.default_rng(scene["seed"])
    request = int(random.integers(0, len(cuts)))
    slot = scene["slots"][request][random.integers(0, cuts[request])]
    for component in range(len(cache)):
        stale = [buffer.copy() for buffer in cache]
        stale[component][slot, random.integers(0, 4)] += 1
        changed = target_pass(backend, scene, stale, cuts, ends)["hidden_states"]
        what = f"the state of request {request} with a stale entry in component {component}"
        require(changed[request, component // 2] != states[request, component // 2], what, "unchanged", "another")
        others = np.arange(len(cuts)) != request
        require_equal("the states of the other requests", changed[others], states[others])


def invisible_entries_do_not_matter(backend: Backend, scene: Case) -> None:
    """Whatever lies in slots that no one may see changes nothing and stays there."""
    cuts = scene["cuts"]
    ends = [cut + 1 for cut in cuts]
    cache = prefill(backend, scene, cuts)["kv_buffers"]
    forward = target_pass(backend, scene, cache, cuts, ends)
    used = np.concatenate([slots[:end] for slots, end in zip(scene["slots"], ends, strict=True)])
    unseen = np.setdiff1d(np.arange(1, scene["num_slots"]), used)
    littered = [buffer.copy() for buffer in cache]
    for buffer in littered:
        buffer[unseen] = 77
    again = target_pass(backend, scene, littered, cuts, ends)
    require_equal("the states over a littered pool", again["hidden_states"], forward["hidden_states"])
    for component, buffer in enumerate(again["kv_buffers"]):
        require_equal(f"the litter in component {component}", buffer[unseen], littered[component][unseen])


def slot_numbers_do_not_matter(backend: Backend, scene: Case) -> None:
    """Sequences that lie in other slots, in any order, give the same states."""
    states = prefill(backend, scene)["hidden_states"]
    renamed = 1 + np.random.default_rng(scene["seed"]).permutation(scene["num_slots"] - 1)
    elsewhere = {**scene, "slots": [renamed[slots - 1] for slots in scene["slots"]]}
    require_equal("the states in other slots", prefill(backend, elsewhere)["hidden_states"], states)


def page_size_does_not_matter(backend: Backend, scene: Case) -> None:
    """Sequences that lie in whole pages give the states of sequences that lie anywhere."""
    states = prefill(backend, scene)["hidden_states"]
    random = np.random.default_rng(scene["seed"])
    page_size = int(random.integers(2, 4))
    lengths = [len(tokens) for tokens in scene["tokens"]]
    needed = [-(-length // page_size) for length in lengths]
    parts = split_rows(1 + random.permutation(sum(needed)), needed)
    page_table = np.zeros((len(lengths), max(needed)), dtype=np.int32)
    slots = []
    for request, mine in enumerate(parts):
        page_table[request, : len(mine)] = mine
        slots.append((mine[:, None] * page_size + np.arange(page_size)).reshape(-1)[: lengths[request]])
    paged = {**scene, "num_slots": (sum(needed) + 1) * page_size}
    asked = {"kv_buffers": empty_pool(paged), "input_ids": np.concatenate(scene["tokens"]), "tree_mask": None}
    pages = {**layout(slots, [0] * len(lengths), lengths), "page_table": page_table, "page_size": page_size}
    got = outputs_of(backend, "target_forward", {**asked, **pages})["hidden_states"]
    require_equal(f"the states in pages of {page_size}", got, states)


def padded_rows_write_only_the_dump_slot(backend: Backend, scene: Case) -> None:
    """A padding request beside the live ones changes neither their states nor any slot but 0."""
    lengths = [len(tokens) for tokens in scene["tokens"]]
    live = prefill(backend, scene)
    padded = {**scene, **{name: [*scene[name], np.zeros(2, dtype=np.int64)] for name in ("tokens", "slots")}}
    both = prefill(backend, padded)
    require_equal("the states beside a padded row", both["hidden_states"][: sum(lengths)], live["hidden_states"])
    for component, buffer in enumerate(both["kv_buffers"]):
        require_equal(f"component {component} beside a padded row", buffer[1:], live["kv_buffers"][component][1:])


PROPERTIES = states(
    "forwards",
    (entries_say_where_they_come_from, scenes, "target_forward", "P40"),
    (context_word_is_the_last_tokens, scenes, "target_forward"),
    (chunked_prefill_equals_one_pass, scenes, "target_forward", "P47"),
    (tree_path_equals_its_sequence, tree_scenes, "target_forward", "P16"),
    (mask_bits_matter, tree_scenes, "target_forward", "P16"),
    (visible_entries_matter, scenes, "target_forward", "P40"),
    (invisible_entries_do_not_matter, scenes, "target_forward", "P40"),
    (slot_numbers_do_not_matter, scenes, "target_forward", "P40"),
    (page_size_does_not_matter, scenes, "target_forward", "P42"),
    (padded_rows_write_only_the_dump_slot, scenes, "target_forward", "P30"),
)
