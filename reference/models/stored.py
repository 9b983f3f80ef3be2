"""Tags after the form that stores them: read out for a forward that wants arrays, or one access after another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specsim.conformance.arrays import Array
from specsim.simulation.models.pool_kinds import TAG_WORDS, Form

KV = Mapping[str, Sequence[Array]]


@dataclass(frozen=True)
class StoredTags:
    """K or V of one layer, used as int64 [slot, 4] would be: entries are read and written where they are stored."""

    form: Form
    buffers: Sequence[Array]
    which: int

    @classmethod
    def of(cls, form: Form, kv: KV) -> "list[StoredTags]":
        """Return K and V of each layer, in turn."""
        return [cls(form, buffers, which) for buffers in layers_of(form, kv) for which in (0, 1)]

    def __getitem__(self, place: Any) -> Array:
        """Return the tags of some slots, or one word of each."""
        slots, *word = place if isinstance(place, tuple) else (place,)
        tags = self.form.read(self.buffers, self.which, np.asarray(slots, dtype=np.int64))
        return tags[:, word[0]] if word else tags

    def __setitem__(self, slots: Array, tags: Array) -> None:
        """Store the tags of some slots."""
        self.form.write(self.buffers, self.which, slots, tags)


def blank(form: Form, kv: KV) -> list[Array]:
    """Return arrays of the shapes that tags have, K and V of each layer in turn, whose entries are undefined."""
    return [np.empty((len(buffers[0]), TAG_WORDS), np.int64) for buffers in layers_of(form, kv) for _ in (0, 1)]


def unpacked(form: Form, kv: KV) -> list[Array]:
    """Return the tags of every slot, int64 [slot, 4]: K and V of each layer, in turn.

    The first component of every form has a row a slot.
    """
    found = []
    for buffers in layers_of(form, kv):
        slots = np.arange(len(buffers[0]))
        found += [form.read(buffers, which, slots) for which in (0, 1)]
    return found


def write_back(form: Form, kv: KV, tags: Sequence[Array], slots: Array) -> None:
    """Store the tags of the slots that a forward wrote."""
    for layer, buffers in enumerate(layers_of(form, kv)):
        for which in (0, 1):
            form.write(buffers, which, slots, tags[2 * layer + which][slots])


def layers_of(form: Form, kv: KV) -> list[list[Array]]:
    """Return the buffers of all components of each layer."""
    return [list(buffers) for buffers in zip(*(kv[part.name] for part in form.parts), strict=True)]
