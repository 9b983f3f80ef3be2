"""Laws of the forward of a draft without KV: it foresees the target if all that it reads is right, and only then."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import Array, Case, outputs_of, require_equal, states
from specsim.properties.operations.models.forwards.scenes import prefill, scenes

_FORWARD = "frozen_kv_draft_forward"


@composite
def frozen_scenes(draw: st.DrawFn) -> Case:
    """Draw a scene, and the target's layer that each draft layer reads."""
    scene = draw(scenes())
    layers = draw(st.lists(st.integers(0, scene["num_layers"] - 1), min_size=1, max_size=3))
    return {**scene, "target_layers": np.array(layers, dtype=np.int64)}


def draft_without_kv_foresees_the_target(backend: Backend, scene: Case) -> None:
    """From its seed, and then from what it carries on, each forward foresees the target's next hidden state."""
    whole = _states(backend, scene)
    cache, seed, everyone = _committed(backend, scene)
    for request in everyone:
        asked = _asked(scene, cache, [request], seed[[request]])
        for depth in range(1, len(scene["tokens"][request]) - scene["cuts"][request] + 1):
            forward = _step(backend, scene, asked, [request], depth)
            expected = whole[request][scene["cuts"][request] + depth - 1]
            require_equal(f"depth {depth} of request {request}", forward["foreseen_hidden_states"][0], expected)
            asked["hidden_states"] = forward["next_hidden_states"]


def whatever_it_reads_shows(backend: Backend, scene: Case) -> None:
    """Another word of a key, a key less, a layer or a seed of somebody else: the draft of that request goes wrong."""
    cache, seed, everyone = _committed(backend, scene)
    right = _asked(scene, cache, everyone, seed)
    expected = _step(backend, scene, right, everyone, 1)
    random = np.random.default_rng(scene["seed"])
    request = int(random.integers(0, len(everyone)))
    slot = scene["slots"][request][random.integers(0, scene["cuts"][request])]
    word, wrong = int(scene["target_layers"][0]), []
    for component in range(2):
        stale = [buffer.copy() for buffer in cache]
        stale[2 * word + component][slot, random.integers(0, 4)] += 1
        wrong.append((f"a stale entry in component {component}", _asked(scene, stale, everyone, seed), [request]))
    other = seed.copy()
    other[request, word] ^= 1
    wrong.append(("another seed", {**right, "hidden_states": other}, [request]))
    if scene["num_layers"] > 1:
        wrong.append(("the layer above", _asked(scene, cache[2:] + cache[:2], everyone, seed), everyone))
    shorter = {**right, "kv_indptr": np.maximum(right["kv_indptr"] - (np.arange(len(everyone) + 1) > request), 0)}
    shorter["kv_indices"] = np.delete(right["kv_indices"], right["kv_indptr"][request + 1] - 1)
    shorter["kv_indptr"] = shorter["kv_indptr"].astype(np.int32)
    for what, asked, astray in (*wrong, ("a key less", shorter, [request])):
        _require_wrong(what, _step(backend, scene, asked, everyone, 1), expected, everyone, astray, word)


def what_it_carries_on_needs_the_same_keys(backend: Backend, scene: Case) -> None:
    """Deeper forwards read the keys again: an entry that changed in between shows in what they foresee."""
    cache, seed, everyone = _committed(backend, scene)
    right = _asked(scene, cache, everyone, seed)
    carried = _step(backend, scene, right, everyone, 1)["next_hidden_states"]
    expected = _step(backend, scene, {**right, "hidden_states": carried}, everyone, 2, token=7)
    request = int(np.random.default_rng(scene["seed"]).integers(0, len(everyone)))
    word = int(scene["target_layers"][-1])
    stale = [buffer.copy() for buffer in cache]
    stale[2 * word][scene["slots"][request][0], 1] += 1
    wrong = _step(backend, scene, _asked(scene, stale, everyone, carried), everyone, 2, token=7)
    _require_wrong("an entry that changed", wrong, expected, everyone, [request], word)


def beams_do_not_meet(backend: Backend, scene: Case) -> None:
    """A beam alone, beams in another order and padding beside them change nothing; nothing of the KV is written."""
    cache, seed, everyone = _committed(backend, scene)
    whole = _step(backend, scene, _asked(scene, cache, everyone, seed), everyone, 1)
    for requests in (everyone[::-1], *([request] for request in everyone)):
        for name, values in _step(backend, scene, _asked(scene, cache, requests, seed[requests]), requests, 1).items():
            require_equal(f"{name} of {requests}", values, whole[name][requests])
    padded = _asked(scene, cache, everyone, seed)
    padded["hidden_states"] = np.concatenate([seed, np.zeros_like(seed[:1])])
    padded["kv_indices"] = np.append(padded["kv_indices"], 0).astype(np.int32)
    padded["kv_indptr"] = np.append(padded["kv_indptr"], padded["kv_indptr"][-1] + 1).astype(np.int32)
    padded["positions"] = np.append(padded["positions"], 0)
    beside = outputs_of(backend, _FORWARD, {**padded, "input_ids": np.append(_tokens(scene, everyone, 1), 0)})
    for name, values in whole.items():
        require_equal(f"{name} beside a padded beam", beside[name][:-1], values)


def _states(backend: Backend, scene: Case) -> list[Array]:
    """Return the target's hidden states of every sequence."""
    ends = np.cumsum([len(tokens) for tokens in scene["tokens"]])
    return np.split(prefill(backend, scene)["hidden_states"], ends[:-1])


def _committed(backend: Backend, scene: Case) -> tuple[list[Array], Array, list[int]]:
    """Return the target's KV of the cut sequences, the hidden state of each one's last token, and all requests."""
    forward, cuts = prefill(backend, scene, scene["cuts"]), scene["cuts"]
    return forward["kv_buffers"], forward["hidden_states"][np.cumsum(cuts) - 1], list(range(len(cuts)))


def _asked(scene: Case, cache: list[Array], requests: list[int], hidden_states: Array) -> Case:
    """Return a forward of one beam a request, but for its tokens and its depth."""
    visible = [scene["slots"][request][: scene["cuts"][request]] for request in requests]
    return {
        "kv_buffers": [cache[2 * layer + which].copy() for layer in scene["target_layers"] for which in (0, 1)],
        "hidden_states": hidden_states,
        "positions": np.array([len(slots) - 1 for slots in visible], dtype=np.int64),
        "kv_indices": np.concatenate(visible).astype(np.int32),
        "kv_indptr": np.concatenate([[0], np.cumsum([len(slots) for slots in visible])]).astype(np.int32),
        "target_layers": scene["target_layers"],
        "depth": 1,
    }


def _tokens(scene: Case, requests: list[int], depth: int) -> Array:
    """Return the token that a forward takes: that after the cut at depth 1."""
    return np.array([scene["tokens"][request][scene["cuts"][request] + depth - 1] for request in requests])


def _step(
    backend: Backend, scene: Case, asked: Case, requests: list[int], depth: int, token: int | None = None
) -> dict[str, Any]:
    """Run a forward over the scene's own tokens, or one token for all."""
    tokens = _tokens(scene, requests, depth) if token is None else np.full(len(requests), token, dtype=np.int64)
    forward = outputs_of(backend, _FORWARD, {**asked, "input_ids": tokens, "depth": depth})
    return {name: forward[name] for name in ("next_hidden_states", "foreseen_hidden_states", "context")}


def _require_wrong(
    what: str, got: dict[str, Any], expected: dict[str, Any], everyone: list[int], wrong: list[int], word: int
) -> None:
    """Raise AssertionError unless exactly these requests foresee another state in a word."""
    name = "foreseen_hidden_states"
    differs = (got[name][:, word] != expected[name][:, word]).tolist()
    require_equal(f"requests that {what} leads astray", differs, [request in wrong for request in everyone])


PROPERTIES = states(
    "frozen_forwards",
    (draft_without_kv_foresees_the_target, frozen_scenes, ("target_forward", _FORWARD), "P48"),
    (whatever_it_reads_shows, frozen_scenes, ("target_forward", _FORWARD), "P40"),
    (what_it_carries_on_needs_the_same_keys, frozen_scenes, ("target_forward", _FORWARD), "P40"),
    (beams_do_not_meet, frozen_scenes, ("target_forward", _FORWARD), "P30"),
)
