"""A device that computes nothing: its slots hold tags, and what a verification accepts is given."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.assertion import require
from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.calls import CallsByName
from specsim.counts import path_width
from specsim.properties.suite.small_scopes.texts import DRAFTED, NOBODYS, REJECTED, Tags, Texts
from specsim.simulation.memory import SlotRange

Slots = NDArray[np.int64]
Path = tuple[int, ...]


@dataclass(frozen=True)
class Verified:
    """One verification: the window of slots of each request, and the accepted path of each.

    ``accept_index`` is int32 [request, draft+1] of global nodes, ``windows`` int64 [request*node].
    """

    seq_lens: NDArray[np.int64]
    windows: Slots
    accept_index: NDArray[np.int32]


@dataclass
class TagDevice:
    """The request-to-token map, a target and a draft pool of tags [slot, 1], and what is carried by row.

    ``carried`` has, for each row, whose text it is and how long: from there the next draft starts.
    """

    req_to_token: NDArray[np.int32]
    target: Tags
    draft: Tags
    carried: dict[int, tuple[int, int]]

    @classmethod
    def of(cls, sizes: PoolSizes) -> "TagDevice":
        """Return a device in which nothing has run."""
        rows = np.zeros((sizes.num_rows, sizes.row_width), dtype=np.int32)
        target, draft = (np.full((sizes.num_slots, 1), NOBODYS, dtype=np.int64) for _ in range(2))
        return cls(rows, target, draft, {})

    def assign(self, ranges: Sequence[SlotRange], operations: CallsByName) -> None:
        """Write allocated slots into the map."""
        if not ranges:
            return
        operations.assign_req_to_token_pool(
            np.array([given.row for given in ranges], dtype=np.int64),
            self.req_to_token,
            np.array([given.start for given in ranges], dtype=np.int64),
            np.array([given.end for given in ranges], dtype=np.int64),
            np.array([slot for given in ranges for slot in given.slots], dtype=np.int64),
        )

    def prefill(self, row: int, request: int, start: int, end: int, texts: Texts) -> None:
        """Write the positions of a chunk in both pools."""
        slots = self.req_to_token[row, start:end]
        self.target[slots, 0] = texts.target[request][start:end]
        self.draft[slots, 0] = texts.draft[request][start:end]
        self.carried[row] = (request, end)

    def verify(
        self, rows: Sequence[int], paths: Sequence[Path], config: SpecConfig, texts: Texts, operations: CallsByName
    ) -> Verified:
        """Write every node of every tree into the target pool."""
        num_nodes, width = config.num_draft_tokens, path_width(config.num_steps)
        lengths = self.lengths(rows)
        windows = operations.assign_extend_cache_locs(
            np.array(rows, dtype=np.int64), self.req_to_token, lengths, lengths + num_nodes, len(rows) * num_nodes
        )
        self.target[windows, 0] = REJECTED
        accept_index = np.full((len(rows), width), -1, dtype=np.int32)
        for place, (row, path) in enumerate(zip(rows, paths, strict=True)):
            request, length = self.carried[row]
            nodes = place * num_nodes + np.array(path)
            accept_index[place, : len(path)] = nodes
            self.target[windows[nodes], 0] = texts.target[request][length : length + len(path)]
        return Verified(lengths, windows, accept_index)

    def draft_tree(self, rows: Sequence[int], config: SpecConfig, page_size: int, operations: CallsByName) -> Slots:
        """Write the scratch of a draft, and what its beams copy; return its slots."""
        places, lengths = np.array(rows, dtype=np.int64), self.lengths(rows)
        num_copies = (config.topk - 1) * int((lengths % page_size).sum())
        located = operations.assign_draft_cache_locs(
            places, self.req_to_token, lengths, config.topk, config.num_steps, page_size, num_copies
        )
        if num_copies:
            operations.move_kv_cache([self.draft], located.target_slots, located.source_slots)
        self.draft[located.out_cache_loc, 0] = DRAFTED
        slots: Slots = np.concatenate([located.out_cache_loc, located.target_slots])
        return slots

    def compact(self, verified: Verified, num_steps: int, operations: CallsByName) -> None:
        """Move the entries of accepted paths to the front of their windows."""
        counts = (verified.accept_index >= 0).sum(axis=1, dtype=np.int32)
        source = operations.fill_accept_out_cache_loc(verified.accept_index, verified.windows)
        target = operations.fill_accept_target_cache_loc(counts, verified.windows, num_steps)
        operations.move_kv_cache([self.target], target, source)

    def extend(self, row: int, count: int, slots: Slots, texts: Texts) -> None:
        """Write the draft entries of accepted tokens; whatever lies after them is not text."""
        request, length = self.carried[row]
        self.draft[slots, 0] = REJECTED
        self.draft[slots[:count], 0] = texts.draft[request][length : length + count]
        self.carried[row] = (request, length + count)

    def lengths(self, rows: Sequence[int]) -> NDArray[np.int64]:
        """Return where the texts of some rows end."""
        unknown = [row for row in rows if row not in self.carried]
        require(not unknown, "rows that decode without a prefill", unknown, "none")
        return np.array([self.carried[row][1] for row in rows], dtype=np.int64)

    def forget_all_but(self, kept: Sequence[int], lengths: dict[int, int]) -> None:
        """Put a mark into every slot that no request needs, and clear the map after the positions of each row."""
        for pool in (self.target, self.draft):
            entries = pool[kept, 0]
            pool[:, 0] = NOBODYS
            pool[kept, 0] = entries
        for row in range(len(self.req_to_token)):
            self.req_to_token[row, lengths.get(row, 0) :] = 0
        self.carried = {row: carried for row, carried in self.carried.items() if row in lengths}
