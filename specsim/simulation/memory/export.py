"""What leaves an engine's memory: committed text with the slots that were written for it, page by page."""

from collections.abc import Callable, Sequence

from specsim.host.exporting import exportable_pages
from specsim.rejection import Reason, check_range
from specsim.simulation.memory.holding import Holding, Memory
from specsim.simulation.memory.keys import num_key_units
from specsim.simulation.memory.transfers import Export, ExportLengths

CountPages = Callable[[int, int, int, int, int | None], int]
"""As ``exportable_pages``."""


def export_text(
    memory: Memory,
    holding: Holding,
    text: Sequence[int],
    written: ExportLengths,
    num_tokens: int | None = None,
    *,
    exportable_pages: CountPages = exportable_pages,
) -> Export:
    """Return what may leave of a request, whether it runs or has ended.

    Parameters
    ----------
    memory : Memory
        What is shared.
    holding : Holding
        What the request has.
    text : sequence of int
        Its resolved tokens, prompt and output, up to its end.
    written : ExportLengths
        What was written of them, and after their end. States that are further than what is left do not leave.
    num_tokens : int or None
        Resolved tokens before the end cut them; None for those of the text.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: what ``exportable_pages`` refuses; more was written than the request has slots; the draft or
        the states are further than the target.

    Notes
    -----
    Source: semantics Q.7.
    """
    books, because = holding.books, "what leaves was written"
    num_tokens = len(text) if num_tokens is None else num_tokens
    num_pages = exportable_pages(written.target, num_tokens, books.num_protected, memory.page_size, len(text))
    check_range(Reason.COUNT_OUT_OF_RANGE, "written.target", written.target, because, most=len(holding.slots))
    for name in ("draft", "states"):
        check_range(Reason.COUNT_OUT_OF_RANGE, f"written.{name}", vars(written)[name], because, 0, written.target)
    target = min(written.target, len(text))
    units = num_key_units(min(written.draft, target), memory.has_pair_keys, memory.num_ahead)
    # NOTE: a hit knows more tokens ahead than the request has filled.
    draft = max(units, books.num_protected)
    lengths = ExportLengths(target, draft, written.states if written.states <= target else 0)
    return Export(
        tuple(text[:target]), tuple(holding.slots[:target]), lengths, min(num_pages, draft // memory.page_size)
    )
