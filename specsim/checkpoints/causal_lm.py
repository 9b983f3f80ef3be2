"""A causal language model of a checkpoint, whose own layers run over the paged KV of a worker.

Any architecture that asks transformers' registry for its attention runs unchanged. Whether it does is tried when it is
loaded: its logits over pages, of two texts at once and of a tree, have to be those of its own attention.
"""

import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pickle import UnpicklingError
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from torch import Tensor

from specsim.checkpoints import attention
from specsim.checkpoints.attention import Attend, Forward, Survey, Window, forwarding
from specsim.checkpoints.folder import Absent, Folder, in_one_line
from specsim.rejection import contradiction
from specsim.simulation.models.batches import PagedKeys
from specsim.simulation.models.description import FINAL_LAYER, KVComponent, Side

REGISTRY = "its layers have to ask transformers' registry for their attention, so that they can read the worker's KV"
RAISED = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
PROBE = ((7, 4, 6), (3, 2, 6))
"""Texts that a model is tried on: tokens of the prompt, then of a tree of three nodes, in slots that are mixed."""


class CausalLM:
    """A loaded checkpoint.

    Parameters
    ----------
    folder : Folder
        Where it lies, and what it says of itself.
    device : torch.device
        Where its weights lie, and the worker's pools.
    dtype : torch.dtype
        Of weights, keys and values.
    has_kernels : bool
        Whether attention may run in the operation ``tree_attention``; it runs in torch where scores are no plain ones.

    Raises
    ------
    Absent
        A file with weights is not there.
    SpecRejection
        BAD_CONFIGURATION: weights are missing, or its layers cannot run over pages.
    """

    def __init__(self, folder: Folder, device: torch.device, dtype: torch.dtype, has_kernels: bool) -> None:
        self.folder, self.device, self.dtype = folder, device, dtype
        self._network = load_network(folder, device, dtype)
        default = str(self._network.config._attn_implementation)
        attention.register()
        self._network.set_attn_implementation(attention.PAGED)
        given = inspect.signature(self._network.forward).parameters
        self._keeps_logits = "logits_to_keep" in given
        if "position_ids" not in given:
            raise self._refused("no position_ids", "positions that are given", "a node of a tree has that of its depth")
        self.row_shape = self._survey()
        # NOTE: some releases of transformers leave bounds and sinks out where they do not attend plainly.
        is_bounded = any(how.softcap is not None or how.sinks is not None for how in self._scores)
        self.own_attention = "eager" if is_bounded else default
        self.kernels: Callable[[Window], Attend] | None = None
        if has_kernels and self._is_plain:
            from specsim.checkpoints.kernels import in_kernels

            self.kernels = in_kernels
        self._attending = self.kernels or attention.plainly
        self._waits = False
        self._require_agreement()
        self.is_capturable = self.kernels is not None and not self._waits

    @property
    def hidden_width(self) -> int:
        """Width of a hidden state."""
        return int(self._network.config.get_text_config().hidden_size)

    @property
    def embedding(self) -> Any:
        """The embedding of tokens."""
        return self._network.get_input_embeddings()

    @property
    def vocabulary_head(self) -> Any:
        """What makes logits of final hidden states."""
        return self._network.get_output_embeddings()

    @property
    def num_layers(self) -> int:
        """Layers that store keys and values."""
        return len(self._scores)

    @property
    def eos_tokens(self) -> tuple[int, ...]:
        """The tokens that end a text."""
        return self.folder.eos_tokens

    def components(self, side: Side) -> tuple[KVComponent, ...]:
        """Return what a slot holds."""
        dtype = str(self.dtype).removeprefix("torch.")
        return tuple(
            KVComponent(name, shape, dtype, self.num_layers, side)
            for name, shape in zip(("k", "v"), self.row_shape, strict=True)
        )

    def run(
        self,
        input_ids: Tensor,
        out_cache_loc: Tensor,
        window: Window,
        kv: Mapping[str, Sequence[Tensor]],
        select: Tensor | None = None,
        hidden_layers: Sequence[int] = (),
    ) -> tuple[Tensor, Tensor | None]:
        """Run new tokens, which are written into the buffers of a worker.

        Returns
        -------
        logits : float32 or bfloat16 [row, vocab]
            Of the selected tokens, of all without a selection.
        hidden_states : [token, layer*hidden] or None
            Of the layers that are asked for, side by side.
        """
        if not input_ids.shape[0]:
            # NOTE: networks reshape what they compute, and an empty tensor has no shape to be found.
            num_rows = 0 if select is None else select.shape[0]
            width = len(hidden_layers) * self.hidden_width
            nothing = torch.zeros(0, width, dtype=self.dtype, device=self.device) if hidden_layers else None
            return torch.zeros(num_rows, self.folder.vocab_size, device=self.device), nothing
        forward = Forward(out_cache_loc, list(zip(kv["k"], kv["v"], strict=True)), self._attending(window))
        with forwarding(forward):
            logits, states = self._call(input_ids, window.positions, select, bool(hidden_layers))
        asked = [states[number if number == FINAL_LAYER else number + 1][0] for number in hidden_layers]
        return logits, torch.cat(asked, dim=1) if asked else None

    @contextmanager
    def by_itself(self) -> Iterator[Any]:
        """Yield the network with its own attention, as transformers run it."""
        self._network.set_attn_implementation(self.own_attention)
        try:
            yield self._network
        finally:
            self._network.set_attn_implementation(attention.PAGED)

    def own_logits(self, text: Sequence[int]) -> Tensor:
        """Return the logits after every token of a text, by its own attention and without a cache [token, vocab]."""
        ids = torch.tensor([list(text)], dtype=torch.int64, device=self.device)
        with self.by_itself() as network:
            return widened(network(input_ids=ids, use_cache=False).logits[0])

    def _call(
        self, input_ids: Tensor, positions: Tensor, select: Tensor | None, has_states: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        keep: dict[str, Any] = {"logits_to_keep": select} if self._keeps_logits and select is not None else {}
        asked = {"output_hidden_states": True} if has_states else {}
        found = self._network(
            input_ids=input_ids[None],
            position_ids=positions[None],
            use_cache=False,
            **keep,
            **asked,
        )
        logits = found.logits[0]
        if select is not None and not keep:
            logits = logits.index_select(0, select)
        return widened(logits), tuple(found.hidden_states) if has_states else ()

    def _survey(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of what a slot holds in a layer, once it is known that all layers attend as they are asked.

        Raises
        ------
        SpecRejection
            BAD_CONFIGURATION: they do not.
        """
        survey, token = Survey(), torch.zeros(1, dtype=torch.int64, device=self.device)
        with self._refusing_errors(), forwarding(survey):
            self._call(token, token, None, has_states=False)
        config = self._network.config.get_text_config()
        if sorted(survey.rows) != list(range(config.num_hidden_layers)) or survey.is_called_twice:
            got = f"{len(survey.rows)} of {config.num_hidden_layers} layers"
            raise self._refused(f"paged attention in {got}", "each layer once", REGISTRY)
        if survey.strangers:
            unknown = f"attention with {', '.join(sorted(survey.strangers))}"
            raise self._refused(unknown, "queries, keys, values and a window", "more is not computed over pages")
        shapes = set(survey.rows.values())
        if len(shapes) > 1:
            raise self._refused(f"keys and values of {len(shapes)} shapes", "one", "a slot holds one row a layer")
        kinds = getattr(config, "layer_types", None) or ()
        for layer, kind in enumerate(kinds):
            if (kind == "sliding_attention") != (survey.scores[layer].sliding_window is not None):
                got = f"layer {layer} of {kind} with a window of {survey.scores[layer].sliding_window}"
                raise self._refused(got, "a window where it slides", "attention is handed the window, and no mask")
        self._scores = [survey.scores[layer] for layer in sorted(survey.scores)]
        return shapes.pop()

    @property
    def _is_plain(self) -> bool:
        is_one_row = self.row_shape[0] == self.row_shape[1]
        return is_one_row and all(how.is_plain for how in self._scores)

    @contextmanager
    def _refusing_errors(self) -> Iterator[None]:
        """Refuse a model whose forwards raise, whatever they do."""
        try:
            yield
        except RAISED as error:
            raise self._refused(f"a forward that raises {in_one_line(error)}", "logits", REGISTRY) from error

    def _refused(self, got: str, expected: str, because: str) -> Exception:
        return contradiction(f"architecture of {self.folder.path}", got, expected, because)

    def _require_agreement(self) -> None:
        """Check that logits over pages are those of the model's own attention, but for rounding.

        A wrong mask or a state that is not in pages moves logits by about their spread; two orders of rounding by about
        the spacing of their type. The bound lies between, at the root of that spacing.

        Raises
        ------
        SpecRejection
            BAD_CONFIGURATION: they are others.
        """
        with self._refusing_errors():
            paged, own = self._probed()
        spread = float((own - own.mean(dim=-1, keepdim=True)).abs().max())
        bound = math.sqrt(torch.finfo(self.dtype).eps) * spread
        difference = float((paged - own).abs().max())
        if not difference <= bound:
            got = f"{self.folder.config.model_type}, whose logits over pages differ by {difference:.2g} from its own"
            raise self._refused(got, f"at most {bound:.2g}", "its attention or its state is not in the worker's pages")

    def _probed(self) -> tuple[Tensor, Tensor]:
        """Return logits of two texts over pages, prompts and trees, and the model's own."""
        generator = torch.Generator().manual_seed(0)
        num_slots = 1 + sum(prompt + 3 for prompt, *_ in PROBE)
        order = (1 + torch.randperm(num_slots - 1, generator=generator)).tolist()
        tokens = torch.randint(self.folder.vocab_size, (num_slots,), generator=generator).tolist()
        kv = {
            name: [torch.zeros(num_slots, *shape, dtype=self.dtype, device=self.device) for _ in range(self.num_layers)]
            for name, shape in zip(("k", "v"), self.row_shape, strict=True)
        }
        lengths = [prompt for prompt, *_ in PROBE]
        starts = [sum(lengths[:place]) + 3 * place for place in range(len(lengths))]
        texts = [tokens[start : start + length + 3] for start, length in zip(starts, lengths, strict=True)]
        slots = [order[start : start + length + 3] for start, length in zip(starts, lengths, strict=True)]

        def run(begins: Sequence[int], ends: Sequence[int], depths: Sequence[Sequence[int]], mask: Any) -> Tensor:
            new = [(text[b:e], own[b:e]) for text, own, b, e in zip(texts, slots, begins, ends, strict=True)]
            ids, places, positions = (
                torch.tensor([one for part in parts for one in part], dtype=torch.int64, device=self.device)
                for parts in ([one for one, _ in new], [one for _, one in new], depths)
            )
            widest, counts = max(ends), [e - b for b, e in zip(begins, ends, strict=True)]
            table = [own[:e] + [0] * (widest - e) for own, e in zip(slots, ends, strict=True)]
            offsets = [sum(counts[:place]) for place in range(len(counts) + 1)]
            pages, seqlens, starts_q = (
                torch.tensor(one, dtype=torch.int32, device=self.device) for one in (table, ends, offsets)
            )
            keys = PagedKeys(pages, seqlens, starts_q, page_size=1)
            with noting_waits(self.device) as waits:
                logits, _ = self.run(ids, places, Window(keys, positions, mask), kv)
            self._waits = bool(waits)
            return logits

        # NOTE: a root with two children, of which neither sees the other.
        square = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=torch.bool, device=self.device)
        zeros, whole = [0] * len(lengths), [length + 3 for length in lengths]
        prompts = run(zeros, lengths, [range(length) for length in lengths], None)
        masks = square.flatten().repeat(len(lengths))
        trees = run(lengths, whole, [(length, length + 1, length + 1) for length in lengths], masks)
        own = [self.own_logits(text[:length]) for text, length in zip(texts, lengths, strict=True)]
        for text, length in zip(texts, lengths, strict=True):
            one, other = (self.own_logits([*text[: length + 1], child])[-2:] for child in text[length + 1 :])
            own += [one, other[1:]]
        return torch.cat([prompts, trees]).double(), torch.cat(own).double()


@contextmanager
def noting_waits(device: torch.device) -> Iterator[list[Any]]:
    """Yield a list that has, after the block, an entry for each time that the host waited for the device."""
    if device.type != "cuda":
        yield []
        return
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        waits: list[Any] = []
        try:
            yield waits
        finally:
            torch.cuda.set_sync_debug_mode("default")
            waits += [one for one in noted if "synchronizing" in str(one.message)]


def widened(logits: Tensor) -> Tensor:
    """Return logits of a type that workers take."""
    return logits if logits.dtype is torch.bfloat16 else logits.float()


def load_network(folder: Folder, device: torch.device, dtype: torch.dtype) -> Any:
    """Read the weights of a checkpoint.

    Raises
    ------
    Absent
        A file with weights is not there.
    SpecRejection
        BAD_CONFIGURATION: weights are missing or have other shapes.
    """
    where = f"weights of {folder.path}"
    try:
        network, found = transformers.AutoModelForCausalLM.from_pretrained(
            folder.path, dtype=dtype, local_files_only=True, output_loading_info=True
        )
    except OSError as error:
        raise Absent(f"{where}: {in_one_line(error)}") from error
    except (*RAISED, EOFError, ImportError, SafetensorError, UnpicklingError) as error:
        raise contradiction(where, in_one_line(error), "those of its config.json", "transformers read them") from error
    lost = sorted({*found["missing_keys"], *(str(one[0]) for one in found["mismatched_keys"])})
    if lost:
        some = f"{', '.join(lost[:2])} and {len(lost) - 2} more" if len(lost) > 2 else ", ".join(lost)
        raise contradiction(where, f"none for {some}", "all of them", "the others would be random numbers")
    return network.to(device).eval().requires_grad_(False)
