"""Laws of the draft model's forwards: what it carries on, what it reads, and what it leaves over."""

from typing import Any

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Array, Case, outputs_of, require, require_equal, states
from specsim.properties.operations.models.forwards.scenes import (
    draft_pass,
    empty_pool,
    prefill,
    scenes,
    split_rows,
    tokens_between,
)


def draft_foresees_the_target(backend: Backend, scene: Case) -> None:
    """From (hidden state of p, token of p+1) the draft model derives the target's hidden state of p+1."""
    lengths = [len(tokens) for tokens in scene["tokens"]]
    states = split_rows(prefill(backend, scene)["hidden_states"], lengths)
    given = np.concatenate([rows[:-1] for rows in states])
    ends = [length - 1 for length in lengths]
    foreseen = draft_pass(backend, scene, empty_pool(scene), given, [0] * len(ends), ends)["next_hidden_states"]
    require_equal("the foreseen states", foreseen, np.concatenate([rows[1:] for rows in states]))


def draft_entries_say_where_they_come_from(backend: Backend, scene: Case) -> None:
    """A draft entry holds its position, the next token and its component; spare slots stay as they are."""
    _, forward, _ = _whole_draft(backend, scene)
    for component, buffer in enumerate(forward["kv_buffers"]):
        for tokens, slots in zip(scene["tokens"], scene["slots"], strict=True):
            entries = buffer[slots[:-1]]
            require_equal(f"the positions in component {component}", entries[:, 0], np.arange(len(tokens) - 1))
            require_equal(f"the tokens in component {component}", entries[:, 1], tokens[1:])
            require_equal(f"the components in component {component}", entries[:, 3], [component] * len(entries))
            twin = forward["kv_buffers"][component ^ 1][slots[:-1]]
            require_equal(f"the contexts in component {component}", entries[:, 2], twin[:, 2])
        require_equal(f"the unused slots of component {component}", buffer[scene["spare"]], 0 * buffer[scene["spare"]])


def draft_decode_equals_extend(backend: Backend, scene: Case) -> None:
    """Decoded one token at a time over its list of slots, a sequence gives what one causal extend gives."""
    given, whole, lengths = _whole_draft(backend, scene)
    rows = {name: split_rows(whole[name], lengths) for name in ("next_hidden_states", "context")}
    states = split_rows(given, lengths)
    buffers = empty_pool(scene)
    for step in range(max(lengths)):
        live = [request for request, length in enumerate(lengths) if step < length]
        visible = [scene["slots"][request][: step + 1] for request in live]
        asked = {
            "kv_buffers": buffers,
            "input_ids": np.array([scene["tokens"][request][step + 1] for request in live]),
            "hidden_states": np.stack([states[request][step] for request in live]),
            "positions": np.full(len(live), step, dtype=np.int64),
            "out_cache_loc": np.array([slots[-1] for slots in visible]),
            "kv_indices": np.concatenate(visible).astype(np.int32),
            "kv_indptr": (np.arange(len(live) + 1) * (step + 1)).astype(np.int32),
        }
        forward = outputs_of(backend, "draft_decode_forward", asked)
        buffers = forward["kv_buffers"]
        for name, parts in rows.items():
            require_equal(f"{name} of step {step}", forward[name], np.stack([parts[request][step] for request in live]))
    for component, buffer in enumerate(buffers):
        require_equal(f"component {component} of the draft cache", buffer[1:], whole["kv_buffers"][component][1:])


def chunked_draft_prefill_equals_one_pass(backend: Backend, scene: Case) -> None:
    """A draft prefill in two chunks gives the contexts and the cache of one pass."""
    given, whole, ends = _whole_draft(backend, scene)
    cuts = [min(cut, end) for cut, end in zip(scene["cuts"], ends, strict=True)]
    states, contexts = split_rows(given, ends), split_rows(whole["context"], ends)
    buffers = empty_pool(scene)
    for first, last in (([0] * len(ends), cuts), (cuts, ends)):
        forward = draft_pass(backend, scene, buffers, tokens_between(states, first, last), first, last)
        buffers = forward["kv_buffers"]
        require_equal(f"the contexts from {first}", forward["context"], tokens_between(contexts, first, last))
    for component, buffer in enumerate(buffers):
        require_equal(f"component {component} of the draft cache", buffer[1:], whole["kv_buffers"][component][1:])


def draft_context_reads_the_cache(backend: Backend, scene: Case) -> None:
    """A stale draft entry shows in every context that sees it, never in the next hidden state."""
    given, whole, ends = _whole_draft(backend, scene)
    last = [end - 1 for end in ends]
    if min(last) < 1:
        return
    random = np.random.default_rng(scene["seed"])
    request = int(random.integers(0, len(ends)))
    slot = scene["slots"][request][random.integers(0, last[request])]
    newest = tokens_between(split_rows(given, ends), last, ends)
    for component in range(len(whole["kv_buffers"])):
        stale = [buffer.copy() for buffer in whole["kv_buffers"]]
        stale[component][slot, random.integers(0, 4)] += 1
        stale[component][scene["spare"]] = 77
        forward = draft_pass(backend, scene, stale, newest, last, ends)
        contexts = tokens_between(split_rows(whole["context"], ends), last, ends)
        what = f"the context of request {request} with a stale entry in component {component}"
        require(forward["context"][request] != contexts[request], what, "unchanged", "another")
        others = np.arange(len(ends)) != request
        require_equal("the contexts of the other requests", forward["context"][others], contexts[others])
        expected = tokens_between(split_rows(whole["next_hidden_states"], ends), last, ends)
        require_equal("the next hidden states", forward["next_hidden_states"], expected)


def padded_beams_write_only_the_dump_slot(backend: Backend, scene: Case) -> None:
    """A padding beam with slot 0 and nothing to read changes no live beam and no slot but 0."""
    random = np.random.default_rng(scene["seed"])
    num_beams = len(scene["slots"])
    asked: Case = {
        "kv_buffers": [random.integers(0, 99, (scene["num_slots"], 4)) for _ in range(2 * scene["num_layers"])],
        "input_ids": random.integers(0, 256, num_beams),
        "hidden_states": random.integers(0, 2**32, (num_beams, 2)),
        "positions": np.ones(num_beams, dtype=np.int64),
        "out_cache_loc": np.array([slots[1] for slots in scene["slots"]]),
        "kv_indices": np.concatenate([slots[:2] for slots in scene["slots"]]).astype(np.int32),
        "kv_indptr": (2 * np.arange(num_beams + 1)).astype(np.int32),
    }
    live = outputs_of(backend, "draft_decode_forward", asked)
    padded = dict(asked)
    for name in ("input_ids", "positions", "out_cache_loc"):
        padded[name] = np.append(asked[name], 0)
    padded["hidden_states"] = np.concatenate([asked["hidden_states"], np.zeros((1, 2), dtype=np.int64)])
    padded["kv_indptr"] = np.append(asked["kv_indptr"], asked["kv_indptr"][-1])
    both = outputs_of(backend, "draft_decode_forward", padded)
    for name in ("next_hidden_states", "context"):
        require_equal(f"{name} beside a padded beam", both[name][:num_beams], live[name])
    for component, buffer in enumerate(both["kv_buffers"]):
        require_equal(f"component {component} beside a padded beam", buffer[1:], live["kv_buffers"][component][1:])


def _whole_draft(backend: Backend, scene: Case) -> tuple[Array, dict[str, Any], list[int]]:
    """Run the draft model over the whole sequences; return the hidden states given, what came out, and their ends."""
    ends = [len(tokens) - 1 for tokens in scene["tokens"]]
    given = np.random.default_rng(scene["seed"]).integers(0, 2**32, (sum(ends), scene["num_layers"] + 1))
    return given, draft_pass(backend, scene, empty_pool(scene), given, [0] * len(ends), ends), ends


PROPERTIES = states(
    "forwards",
    (draft_foresees_the_target, scenes, ("target_forward", "draft_extend_forward"), "P47"),
    (draft_entries_say_where_they_come_from, scenes, "draft_extend_forward", "P40"),
    (draft_decode_equals_extend, scenes, ("draft_extend_forward", "draft_decode_forward"), "P48"),
    (chunked_draft_prefill_equals_one_pass, scenes, "draft_extend_forward", "P47"),
    (draft_context_reads_the_cache, scenes, "draft_extend_forward", "P40"),
    (padded_beams_write_only_the_dump_slot, scenes, "draft_decode_forward", "P30"),
)
