"""The tokens with which the draft model catches up: ragged after a V1 verify, of fixed width after a V2 one."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from specsim.contracts.contract import Contract, ScalarSpec
from specsim.operations.shared import NUM_ACCEPTED_DRAFTS, NUM_DRAFT_TOKENS, OUT_CACHE_LOC, REQ_POOL_INDICES
from specsim.phases.carried import array_of, narrowed
from specsim.phases.form import Zeros, check_form, library_of, numpy_zeros, reject_form
from specsim.phases.tags import PhaseTag
from specsim.rejection import Reason, SpecRejection, check_length, check_range

NOT_SET = -1
"""``num_tokens_per_req`` of an extend input that no worker has taken up."""

_COMPACT = "compact_accepted_to_front"
_RAGGED = "create_extend_after_decode_spec_info"
_FIXED = "prepare_for_extend_to_fill_draft_kvcache"


@dataclass(frozen=True)
class EagleDraftExtendInput:
    """The output tokens of the requests that go on, request after request: the ragged V1 form.

    Shapes: ``input_ids``, ``out_cache_loc`` and ``positions`` [token], ``hidden_states`` [token, hidden] or None where
    the draft model takes none; ``req_pool_indices``, ``seq_lens`` (after verify), both counts and ``bonus_tokens``
    [request]. ``num_accepted_tokens_cpu`` and ``seq_lens_cpu`` are the host's copies, tuples. ``positions`` and
    ``bonus_tokens`` are None until the extend is prepared.

    Raises
    ------
    SpecRejection
        WRONG_SHAPE, WRONG_DTYPE, MISSING_ARGUMENT; INCONSISTENT_LENGTHS: the counts do not cut the tokens.

    Notes
    -----
    Source: semantics D.1.
    """

    req_pool_indices: Any
    seq_lens: Any
    seq_lens_cpu: tuple[int, ...]
    num_accepted_drafts: Any
    num_accepted_tokens: Any
    num_accepted_tokens_cpu: tuple[int, ...]
    input_ids: Any
    hidden_states: Any
    out_cache_loc: Any
    positions: Any = None
    bonus_tokens: Any = None
    num_tokens_per_req: int = NOT_SET

    tag: ClassVar[PhaseTag] = PhaseTag.EAGLE_DRAFT_EXTEND
    num_tokens_for_logprob_per_req: ClassVar[int] = 1
    contract: ClassVar[Contract] = Contract(
        parameters=(
            REQ_POOL_INDICES,
            array_of(_RAGGED, "seq_lens", dtype="int64"),
            NUM_ACCEPTED_DRAFTS,
            array_of(_RAGGED, "num_accepted_tokens"),
            array_of(_RAGGED, "input_ids"),
            array_of(_COMPACT, "values", "hidden_states", axes=("token", "hidden"), optional=True),
            narrowed(OUT_CACHE_LOC, axes=("token",)),
            array_of(_RAGGED, "positions", optional=True),
            array_of(_RAGGED, "bonus_tokens", optional=True),
            ScalarSpec("num_tokens_per_req", low="-1"),
        )
    )

    def __post_init__(self) -> None:
        axes = check_form(self)
        because = "the counts cut the tokens into one segment a request"
        for name in ("seq_lens_cpu", "num_accepted_tokens_cpu"):
            copies = len(getattr(self, name))
            if copies != axes["request"]:
                raise reject_form(
                    self, Reason.INCONSISTENT_LENGTHS, f"{name} length", copies, str(axes["request"]), because
                )
        counts = self.num_accepted_tokens_cpu
        if sum(counts) != axes["token"] or any(count < 1 for count in counts):
            expected = f"counts of at least 1 that add up to {axes['token']}"
            raise reject_form(self, Reason.INCONSISTENT_LENGTHS, "num_accepted_tokens_cpu", counts, expected, because)

    @classmethod
    def create_idle_input(
        cls, hidden_width: int | None, hidden_dtype: str = "float32", zeros: Zeros = numpy_zeros
    ) -> Self:
        """Return the input of an empty batch: every array is there, with length 0; see ``DraftInput``."""
        return cls(
            req_pool_indices=zeros((0,), "int64"),
            seq_lens=zeros((0,), "int64"),
            seq_lens_cpu=(),
            num_accepted_drafts=zeros((0,), "int32"),
            num_accepted_tokens=zeros((0,), "int32"),
            num_accepted_tokens_cpu=(),
            input_ids=zeros((0,), "int64"),
            hidden_states=None if hidden_width is None else zeros((0, hidden_width), hidden_dtype),
            out_cache_loc=zeros((0,), "int64"),
            positions=zeros((0,), "int64"),
            bonus_tokens=zeros((0,), "int32"),
        )

    @property
    def num_requests(self) -> int:
        """Requests that go on."""
        return int(self.req_pool_indices.shape[0])


@dataclass(frozen=True)
class DraftExtendInput:
    """The tokens with which the draft model catches up: ``node`` rows a request, accepted path first.

    Shapes: ``input_ids``, ``positions``, ``out_cache_loc`` [request*node], ``hidden_states`` [request*node, hidden] or
    None where the draft model takes none, ``forward_seq_lens``, both counts and ``select_index`` [request]. Rows past
    the accepted path are computed on tokens that do not matter.
    """

    input_ids: Any
    hidden_states: Any
    positions: Any
    out_cache_loc: Any
    forward_seq_lens: Any
    num_accepted_drafts: Any
    num_accepted_tokens: Any
    select_index: Any
    num_draft_tokens: int

    tag: ClassVar[PhaseTag] = PhaseTag.EAGLE_DRAFT_EXTEND_V2
    contract: ClassVar[Contract] = Contract(
        parameters=(
            array_of(_RAGGED, "input_ids", axes=("request*node",)),
            array_of(_COMPACT, "compacted", "hidden_states", axes=("request*node", "hidden"), optional=True),
            array_of(_FIXED, "positions"),
            OUT_CACHE_LOC,
            array_of(_FIXED, "forward_seq_lens"),
            NUM_ACCEPTED_DRAFTS,
            array_of(_FIXED, "num_accepted_tokens"),
            array_of(_FIXED, "select_index"),
            NUM_DRAFT_TOKENS,
        )
    )

    def __post_init__(self) -> None:
        check_form(self)

    @property
    def num_requests(self) -> int:
        """Requests of the batch, padding included."""
        return int(self.select_index.shape[0])

    @property
    def num_tokens_per_req(self) -> int:
        """Rows of a request in the extend forward."""
        return self.num_draft_tokens


@dataclass(frozen=True)
class ExtendLens:
    """What every request has in front of an extend, and how many rows it has in it.

    ``prefix_lens`` and ``extend_lens`` are tuples of the host, or int32 [request] of the device; ``extend_lens_cpu`` is
    the host's either way, because every request has as many. ``forward_lens_cpu`` and ``forward_lens_sum`` count what
    the forward sees, and are None where the host does not know the lengths.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: one of the two is a tuple and the other is none, or numbers of requests differ.
    """

    prefix_lens: Any
    extend_lens: Any
    extend_lens_cpu: tuple[int, ...]
    forward_lens_cpu: tuple[int, ...] | None
    forward_lens_sum: int | None

    def __post_init__(self) -> None:
        are_known = isinstance(self.prefix_lens, tuple)
        for name, value in (("extend_lens", self.extend_lens), ("forward_lens_cpu", self.forward_lens_cpu)):
            if isinstance(value, tuple) != are_known:
                kind, because = "a tuple" if are_known else "no tuple", "the host knows all lengths or none"
                raise SpecRejection(Reason.INCONSISTENT_LENGTHS, name, type(value).__name__, kind, because)
        for name in ("extend_lens", "extend_lens_cpu"):
            because = "every request has a prefix and an extend"
            check_length(name, len(getattr(self, name)), len(self.prefix_lens), because)


def get_draft_extend_lens(seq_lens: Any, seq_lens_cpu: tuple[int, ...] | None, num_draft_tokens: int) -> ExtendLens:
    """Return the lengths of the extend after a verify, without waiting for the device.

    Parameters
    ----------
    seq_lens : int64 or int32 [request]
        Lengths before the verify, on the device.
    seq_lens_cpu : tuple of int or None
        The same on the host; None where they were never copied.
    num_draft_tokens : int
        Rows of every request.

    Returns
    -------
    lens : ExtendLens
        Everything on the host if the lengths are there, else nothing but the width, which is known anyway.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: the host knows the lengths of another number of requests; SCALAR_OUT_OF_RANGE: no row.

    Notes
    -----
    Source: semantics D.6.
    """
    check_range(Reason.SCALAR_OUT_OF_RANGE, "num_draft_tokens", num_draft_tokens, "the root is extended", 1)
    widths = (num_draft_tokens,) * len(seq_lens)
    if seq_lens_cpu is None:
        library = library_of(seq_lens)
        prefix_lens = library.empty_like(seq_lens, dtype=library.int32)
        prefix_lens[...] = seq_lens
        return ExtendLens(prefix_lens, library.full_like(prefix_lens, num_draft_tokens), widths, None, None)
    check_length("seq_lens_cpu", len(seq_lens_cpu), len(seq_lens), "it is a copy of seq_lens")
    forward_lens = tuple(length + num_draft_tokens for length in seq_lens_cpu)
    return ExtendLens(tuple(seq_lens_cpu), widths, widths, forward_lens, sum(forward_lens))
