"""What one engine hands over of a text to another one: an export, what lies in its slots, and how that is stored."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from specsim.host.exporting import loadable_positions
from specsim.rejection import Reason, SpecRejection, check_length, check_range, contradiction
from specsim.simulation.memory import ExportLengths
from specsim.simulation.models.description import (
    DraftSource,
    KVComponent,
    Layout,
    ModelDescription,
    Side,
    StateComponent,
)

CountLoadable = Callable[[int, int, int | None, int | None, int, int, int], int]
"""As ``loadable_positions``."""

Contents = Mapping[str, Sequence[NDArray[Any]]]
"""What lies in some slots, [slot, *row_shape] a layer under the names of a worker's ``state``, and in one row.

Of layers with a sliding window there are the last positions alone; of others there is every one.
"""


@dataclass(frozen=True)
class PoolForm:
    """How a worker stores a text.

    Parameters
    ----------
    vocab_size : int
        Tokens of the target.
    page_size : int
        Slots of a page.
    kv_components, state_components : tuple
        What every slot and every row holds.
    draft_source : DraftSource
        What the draft's entries are made of.
    """

    vocab_size: int
    page_size: int
    kv_components: tuple[KVComponent, ...]
    state_components: tuple[StateComponent, ...]
    draft_source: DraftSource

    @classmethod
    def of(cls, description: ModelDescription, page_size: int) -> "PoolForm":
        """Return the form of what a worker runs of a model."""
        components = description.kv_components, description.state_components
        return cls(description.vocab_size, page_size, *components, description.draft_source)

    @property
    def window(self) -> int:
        """Positions that the layers with a sliding window see; 0 where there are none."""
        return max((one.window for one in self.kv_components), default=0)

    def components_of(self, side: Side) -> tuple[KVComponent, ...]:
        """Return the components of one side."""
        return tuple(one for one in self.kv_components if one.side is side)

    def require_holds(self, other: "PoolForm") -> None:
        """Raise unless a worker of this form can go on with what one of another form has stored.

        Raises
        ------
        SpecRejection
            BAD_CONFIGURATION: vocabularies, components or what the draft consumes differ; NO_MOVE: a component has no
            row a slot; NOT_DIVISIBLE: pages of the one begin inside pages of the other.
        """
        for one in self.kv_components:
            if one.layout is not Layout.SLOTS:
                because = "what another engine has stored is written slot by slot"
                raise SpecRejection(Reason.NO_MOVE, f"layout of {one.name!r}", one.layout.name, "SLOTS", because)
        _require_same("tokens of the vocabulary", self.vocab_size, other.vocab_size)
        target = (one.components_of(Side.TARGET) for one in (self, other))
        _require_same("KV components of the target", *map(_names, target))
        _require_same("recurrent states", *(_names(one.state_components) for one in (self, other)))
        if self.components_of(Side.DRAFT):
            drafts = (one.components_of(Side.DRAFT) for one in (self, other))
            _require_same("KV components of the draft", *map(_names, drafts))
            _require_same("what the draft consumes", self.draft_source.name, other.draft_source.name)
        larger, smaller = max(self.page_size, other.page_size), min(self.page_size, other.page_size)
        if larger % smaller:
            because = f"pages of {other.page_size} slots were handed over"
            raise SpecRejection(Reason.NOT_DIVISIBLE, "page_size", self.page_size, "a multiple or a part", because)


def _names(components: Sequence[KVComponent | StateComponent]) -> str:
    """Return all that has to be the same of some components, in words."""
    words = [f"{one.name} {one.dtype} {list(one.row_shape)} x {one.num_layers}" for one in components]
    windows = [f" (window {one.window})" if isinstance(one, KVComponent) and one.window else "" for one in components]
    return ", ".join(map("".join, zip(words, windows, strict=True))) or "none"


def _require_same(what: str, own: object, other: object) -> None:
    if own != other:
        raise contradiction(what, own, str(other), "an engine of that kind has handed the text over")


@dataclass(frozen=True)
class Load:
    """The front of a text as an engine loads it in the place of computing it.

    ``contents`` has a row for each of ``num_positions``, of layers with a sliding window for the last of them.
    """

    num_positions: int
    contents: Contents

    def after(self, start: int) -> Contents:
        """Return what is to be written where the first positions are there already."""
        return {
            name: layers if name == "states" else [_last(layer, self.num_positions - start) for layer in layers]
            for name, layers in self.contents.items()
        }


def _last(rows: NDArray[Any], count: int) -> NDArray[Any]:
    return rows[max(0, len(rows) - count) :]


@dataclass(frozen=True)
class SlotLoad:
    """What a worker writes for a request that joins: positions from ``start`` on, one slot each, and its states."""

    row: int
    start: int
    slots: tuple[int, ...]
    contents: Contents


@dataclass(frozen=True)
class HandOver:
    """A resolved text, what was stored of it, and how.

    Parameters
    ----------
    text : tuple of int
        Prompt and output up to the end; the last token may never have been fed.
    lengths : ExportLengths
        From the front, how much each cache has of it. The draft's entries may have read the tokens after them.
    contents : mapping
        As many rows of either side, those of the window from ``window_start`` on, and the states after
        ``lengths.states`` tokens.
    form : PoolForm
        How the engine stores them.
    window_start : int
        The first position whose entries in layers with a sliding window are there, up to the last one.

    Notes
    -----
    Source: semantics Q.7.
    """

    text: tuple[int, ...]
    lengths: ExportLengths
    contents: Contents
    form: PoolForm
    window_start: int = 0

    def load(
        self,
        fill: Sequence[int],
        form: PoolForm,
        publishes: bool = False,
        *,
        loadable_positions: CountLoadable = loadable_positions,
    ) -> Load:
        """Return what an engine of some form loads of it for a request.

        Parameters
        ----------
        fill : sequence of int
            The request's tokens, prompt and output, which go on where the text ends.
        publishes : bool
            Whether the engine leaves prompts to a prefix cache.

        Raises
        ------
        SpecRejection
            What ``PoolForm.require_holds`` and ``loadable_positions`` refuse; BAD_CONFIGURATION: another text;
            INCONSISTENT_LENGTHS: tokens without contents, or the reverse.
        """
        form.require_holds(self.form)
        self._check_contents()
        if tuple(fill[: len(self.text)]) != self.text:
            raise contradiction("text", list(fill[: len(self.text)]), str(list(self.text)), "it was handed over")
        has_draft, has_states = bool(form.components_of(Side.DRAFT)), bool(form.state_components)
        count = loadable_positions(
            len(fill),
            self.lengths.target,
            self.lengths.draft if has_draft else None,
            self.lengths.states if has_states else None,
            form.window,
            self.window_start,
            form.page_size if publishes else 1,
        )
        contents = {
            "target_kv": [layer[:count] for layer in self.contents["target_kv"]],
            "draft_kv": [layer[:count] for layer in self.contents["draft_kv"]] if has_draft else [],
            "states": [*self.contents["states"]] if has_states else [],
        }
        if form.window:
            contents["swa_kv"] = [layer[: count - self.window_start] for layer in self.contents["swa_kv"]]
        return Load(count, contents)

    def _check_contents(self) -> None:
        """Raise unless every length has its contents, in as many layers as the form has."""
        lengths, text = self.lengths, len(self.text)
        reason, because = Reason.COUNT_OUT_OF_RANGE, "it counts what is there of the text"
        for what in ("target", "draft", "states"):
            most = text if what == "target" else lengths.target
            check_range(reason, f"lengths.{what}", vars(lengths)[what], because, 0, most)
        check_range(reason, "window_start", self.window_start, because, 0, lengths.target)
        of_target = self.form.components_of(Side.TARGET)
        because = "a position has a token and an entry in every layer"
        for name, length, components in (
            ("target_kv", lengths.target, [one for one in of_target if not one.window]),
            ("draft_kv", lengths.draft, self.form.components_of(Side.DRAFT)),
            ("swa_kv", lengths.target - self.window_start, [one for one in of_target if one.window]),
        ):
            layers = self.contents.get(name, ())
            check_length(f"layers of {name}", len(layers), sum(one.num_layers for one in components), because)
            for layer in layers:
                check_length(f"rows of {name}", len(layer), length, because)
