"""What the rules look at: the settings of a server that decide how it drafts and verifies."""

from dataclasses import dataclass, field

from specsim.host.adaptive import AdaptiveConfig


@dataclass(frozen=True)
class ServerConfig:
    """Settings as a user gives them, and as the rules leave them. None means that the user left it open.

    Parameters
    ----------
    algorithm : str or None
        Name of a built-in algorithm or plug-in, or an alias, in any case; None drafts nothing.
    topk, num_steps, num_draft_tokens : int or None
        Sizes of a draft: beams, levels, nodes sent to the target.
    page_size : int
        Slots of one page of the pool.
    mode : str
        ``auto`` lets the rules choose the worker; ``v1`` and ``v2`` force it.
    disable_overlap : bool
        Scheduling waits for each iteration; set by the user, or by a rule that says why.
    enable_spec_v2 : bool
        Whether the worker V2 may be chosen.
    recurrent : bool
        The target has mamba or linear-attention layers.
    radix_cache, state_strategy, snapshot_interval : bool, str, int
        Sharing of prefixes; how recurrent states are buffered, ``no_buffer`` or ``extra_buffer``; and how many tokens
        lie between two snapshots of a state.
    max_running_requests : int or None
        Requests of a batch at most.
    mixed_chunk : bool
        Prefill chunks and decodes share a batch.
    attention_backend, decode_attention_backend, prefill_attention_backend : str, str or None, str or None
        Attention kernels; the last two replace the first in their phase.
    model_path, revision, architecture : str, str or None, str
        The target.
    draft_model_path, draft_revision, draft_architecture : str or None, str or None, str
        The draft model.
    draft_window : int or None
        Sliding window of the draft's attention.
    moe_runner_backend, draft_moe_runner_backend : str, str or None
        Kernels of expert layers, of the target and of the draft.
    dp_attention, skip_dp_mlp_sync : bool
        Attention is data-parallel; its ranks do not wait for each other in drafts.
    pp_size : int
        Pipeline stages.
    multi_layer, two_batch_overlap, pdmux : bool
        A layer a draft step; two half batches interleaved; prefill and decode multiplexed on one GPU.
    device, platform : str, str
        Where the model runs, ``cuda`` or another; and whose driver that is, ``cuda`` or ``rocm``.
    packed_mask : bool
        The tree mask holds one word a node.
    threshold_single, threshold_acc : float
        Of acceptance, 0 to 1.
    dflash_block_size, dflash_draft_block_size : int or None
        Block of DFLASH: as the user says, and as the draft model's configuration says.
    ngram_max_bfs_breadth : int
        Widest level of an NGRAM draft.
    ngram_corpus, ngram_sam_budget, ngram_corpus_max_tokens : str or None, int, int
        External corpus of NGRAM, the draft tokens it may fill, and the tokens it may hold.
    adaptive, adaptive_config : bool, AdaptiveConfig
        Whether the number of steps follows what is accepted, and how.
    """

    algorithm: str | None = None
    topk: int | None = None
    num_steps: int | None = None
    num_draft_tokens: int | None = None
    page_size: int = 1
    mode: str = "auto"
    disable_overlap: bool = False
    enable_spec_v2: bool = True
    recurrent: bool = False
    radix_cache: bool = True
    state_strategy: str = "extra_buffer"
    snapshot_interval: int = 256
    max_running_requests: int | None = None
    mixed_chunk: bool = False
    attention_backend: str = "flashinfer"
    decode_attention_backend: str | None = None
    prefill_attention_backend: str | None = None
    model_path: str = "target"
    revision: str | None = None
    architecture: str = ""
    draft_model_path: str | None = None
    draft_revision: str | None = None
    draft_architecture: str = ""
    draft_window: int | None = None
    moe_runner_backend: str = "auto"
    draft_moe_runner_backend: str | None = None
    dp_attention: bool = False
    skip_dp_mlp_sync: bool = False
    pp_size: int = 1
    multi_layer: bool = False
    two_batch_overlap: bool = False
    pdmux: bool = False
    device: str = "cuda"
    platform: str = "cuda"
    packed_mask: bool = False
    threshold_single: float = 1.0
    threshold_acc: float = 1.0
    dflash_block_size: int | None = None
    dflash_draft_block_size: int | None = None
    ngram_max_bfs_breadth: int = 10
    ngram_corpus: str | None = None
    ngram_sam_budget: int = 0
    ngram_corpus_max_tokens: int = 10_000_000
    adaptive: bool = False
    adaptive_config: AdaptiveConfig = field(default_factory=AdaptiveConfig)

    @property
    def attention_backends(self) -> frozenset[str]:
        """Return every attention backend that is named."""
        named = (self.attention_backend, self.decode_attention_backend, self.prefill_attention_backend)
        return frozenset(backend for backend in named if backend is not None)
