"""Heads of EAGLE and EAGLE-3: one layer of a Llama over hidden states of the target, in the layouts that engines load.

A head reads the token of the next position beside what the target computed at its own. EAGLE joins the token's
embedding and the final hidden state, runs a layer, and asks the target's vocabulary head. EAGLE-3 joins hidden states
of three layers, attends over embedding and hidden state side by side, and has a vocabulary head of its own, which may
know a part of the tokens; ``d2t`` says by how much the number of each is lower than the target's.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding

from specsim.checkpoints import attention
from specsim.checkpoints.attention import Attend, Forward, Window, forwarding
from specsim.checkpoints.causal_lm import CausalLM
from specsim.checkpoints.folder import Folder
from specsim.rejection import contradiction
from specsim.simulation.models.description import FINAL_LAYER, KVComponent, Side

NUM_LAYERS_READ = 3
"""Layers of the target that a head of EAGLE-3 reads."""


class _Layer(nn.Module):
    """The weights of a head, under the names of its file."""

    def __init__(self, config: Any, is_third: bool, target_width: int, num_tokens: int, has_bias: bool) -> None:
        super().__init__()
        width = config.hidden_size
        eps, heads = config.rms_norm_eps, config.num_attention_heads
        self.self_attn = LlamaAttention(config, layer_idx=0)
        self.mlp = LlamaMLP(config)
        self.post_attention_layernorm = LlamaRMSNorm(width, eps)
        if not is_third:
            self.fc = nn.Linear(width + target_width, width, bias=has_bias)
            return
        head_dim = getattr(config, "head_dim", None) or width // heads
        for name, rows in (("q", heads), ("k", config.num_key_value_heads), ("v", config.num_key_value_heads)):
            setattr(self.self_attn, f"{name}_proj", nn.Linear(2 * width, rows * head_dim, bias=config.attention_bias))
        self.input_layernorm, self.hidden_norm = LlamaRMSNorm(width, eps), LlamaRMSNorm(width, eps)
        self.fc = nn.Linear(NUM_LAYERS_READ * target_width, width, bias=has_bias)
        self.norm = LlamaRMSNorm(width, eps)
        self.lm_head = nn.Linear(width, num_tokens, bias=False)


class EagleHead:
    """A loaded head beside its target.

    Parameters
    ----------
    folder : Folder
        A folder with ``fc.weight``.
    target : CausalLM
        The target, whose embeddings and vocabulary head it uses where it has none.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: it is no layer of a Llama, reads other hidden states, or lacks weights.
    """

    def __init__(self, folder: Folder, target: CausalLM) -> None:
        self.folder, self._target = folder, target
        self.is_third = folder.head == "EAGLE3"
        config, weights = folder.config, folder.weights()
        if config.model_type != "llama":
            because = "heads of EAGLE are layers of a Llama"
            raise contradiction(f"architecture of {folder.path}", config.model_type, "llama", because)
        if not self.is_third and config.hidden_size != target.hidden_width:
            because = "the target's vocabulary head reads what the head computes"
            expected = f"the {target.hidden_width} of the target"
            raise contradiction(f"hidden_size of {folder.path}", config.hidden_size, expected, because)
        config._attn_implementation = attention.PAGED
        hot = weights.pop("d2t", None)
        self.hot_token_id: NDArray[np.int64] | None = None
        if hot is not None:
            self.hot_token_id = (torch.arange(hot.shape[0]) + hot.cpu()).numpy().astype(np.int64)
        num_tokens = folder.vocab_size if hot is None else hot.shape[0]
        self._layer = _Layer(config, self.is_third, target.hidden_width, num_tokens, "fc.bias" in weights)
        self._embedding = target.embedding
        if "embed_tokens.weight" in weights:
            table = weights.pop("embed_tokens.weight")
            self._embedding = nn.Embedding(table.shape[0], table.shape[1], _weight=table)
        self._load(weights)
        self._rotary = LlamaRotaryEmbedding(config)
        for module in (self._layer, self._embedding, self._rotary):
            module.to(target.device).eval().requires_grad_(False)
        self._layer.to(target.dtype)
        self._embedding.to(target.dtype)
        kernels = target.kernels
        self.is_capturable = kernels is not None
        self._attending: Callable[[Window], Attend] = kernels or attention.plainly
        self.target_layers = self._layers_read()

    @property
    def hidden_width(self) -> int:
        """Width of what it hands to its next forward."""
        return int(self.folder.config.hidden_size)

    def components(self, side: Side) -> tuple[KVComponent, ...]:
        """Return what a slot holds."""
        config, dtype = self.folder.config, str(self._target.dtype).removeprefix("torch.")
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (config.num_key_value_heads, head_dim)
        return tuple(KVComponent(name, shape, dtype, 1, side) for name in ("k", "v"))

    def run(
        self,
        input_ids: Tensor,
        hidden_states: Tensor,
        out_cache_loc: Tensor,
        window: Window,
        kv: Mapping[str, Sequence[Tensor]],
        select: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Return logits over its tokens [row, draft_vocab], and its hidden states [row, hidden].

        Parameters
        ----------
        hidden_states : [token, layer*hidden]
            The target's when it catches up, and its own while it drafts.
        select : int64 [row] or None
            The tokens that propose when it catches up; None while it drafts, when all of them do.
        """
        forward = Forward(out_cache_loc, [(kv["k"][0], kv["v"][0])], self._attending(window))
        with forwarding(forward):
            hidden = self._run_layer(input_ids, hidden_states, window.positions, is_own=select is None)
        hidden = hidden if select is None else hidden.index_select(0, select)
        if self.is_third:
            return self._layer.lm_head(self._layer.norm(hidden)), hidden
        return self._target.vocabulary_head(hidden), hidden

    def _run_layer(self, input_ids: Tensor, given: Tensor, positions: Tensor, is_own: bool) -> Tensor:
        layer = self._layer
        embedded = self._embedding(input_ids)
        if self.is_third:
            hidden = given if is_own else layer.fc(given)
            read = torch.cat([layer.input_layernorm(embedded), layer.hidden_norm(hidden)], dim=-1)
        else:
            hidden = read = layer.fc(torch.cat([embedded, given], dim=-1))
        angles = self._rotary(hidden[None], positions[None])
        attended = layer.self_attn(hidden_states=read[None], position_embeddings=angles, attention_mask=None)[0]
        hidden = hidden + attended[0]
        joined: Tensor = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return joined

    def _load(self, weights: dict[str, Tensor]) -> None:
        """Take the weights of the file, under its names without those of the layer."""
        named = {name.removeprefix("midlayer.").removeprefix("layers.0."): one for name, one in weights.items()}
        named.pop("t2d", None)
        try:
            found = self._layer.load_state_dict(named, strict=False)
        except RuntimeError as error:
            what, line = f"weights of {self.folder.path}", " ".join(str(error).split())[:160]
            raise contradiction(what, line, "those of its config.json and its target", "a head fits both") from error
        odd = [*found.missing_keys, *found.unexpected_keys]
        if odd:
            what = f"weights of {self.folder.path}"
            raise contradiction(what, f"others in {', '.join(odd[:3])}", f"a head of {self.folder.head}", "it is run")

    def _layers_read(self) -> tuple[int, ...]:
        """Return the layers of the target that it reads, by what the file says or as EAGLE-3 chose them."""
        if not self.is_third:
            return (FINAL_LAYER,)
        config, number = self.folder.config, self._target.num_layers
        given = (getattr(config, "eagle_config", None) or {}).get("eagle_aux_hidden_state_layer_ids")
        layers = tuple(given or (1, number // 2 - 1, number - 4))
        if len(layers) != NUM_LAYERS_READ or any(not 0 <= layer < number for layer in layers):
            expected, because = f"{NUM_LAYERS_READ} of 0 to {number - 1}", "the target has no others"
            raise contradiction(f"layers that {self.folder.path} reads", list(layers), expected, because)
        return layers
