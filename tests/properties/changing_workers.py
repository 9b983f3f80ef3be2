"""Workers of somebody else around the reference, which let others go on in their pools, some of them wrongly."""

from copy import deepcopy

from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker


class FixedWorker:
    """A worker with what the protocol asks for and nothing else."""

    LOOP = ReferenceWorker

    def __init__(self, config, model, sizes, loop=None):
        self._loop = self.LOOP(config, model, sizes) if loop is None else loop
        self.name, self.device = "somebody's", "cpu"
        self.config, self.model, self.sizes = config, model, sizes

    def assign_slots(self, ranges):
        self._loop.assign_slots(ranges)

    def assign_choices(self, rows, choices):
        self._loop.assign_choices(rows, choices)

    def prefill(self, rows, chunks):
        return self._loop.prefill(rows, chunks)

    def decode(self, rows, num_steps=None):
        return self._loop.decode(rows, num_steps)

    def phases(self):
        return self._loop.phases()

    def state(self):
        return self._loop.state()


class OwnWorker(FixedWorker):
    """The same, which tells of its tokens, and in whose pools another one can go on."""

    def told(self):
        return self._loop.told()

    def resized(self, config):
        return type(self)(config, self.model, self.sizes, self._loop.resized(config))


class OwnWorkerV1(OwnWorker):
    """The same as a V1 worker."""

    LOOP = ReferenceWorkerV1

    def keep_books(self, ledger):
        self._loop.keep_books(ledger)


class StaleDraftWorker(ReferenceWorker):
    """Starts the first draft in a row from the length at which the worker before stopped in it."""

    before = None

    def resized(self, config):
        other = super().resized(config)
        other.before = self
        return other

    def prefill(self, rows, chunks):
        following = super().prefill(rows, chunks)
        for row in rows if self.before else ():
            length = self.before._waiting.carried["seq_lens"][row]
            self._waiting.carried["seq_lens"][row] = length or self._waiting.carried["seq_lens"][row]
        return following


class OldWidthWorker(ReferenceWorker):
    """Starts drafts from as many tokens as the worker before took."""

    width = None

    def resized(self, config):
        other = super().resized(config)
        other.width = self.config.topk
        return other

    def prefill(self, rows, chunks):
        following = super().prefill(rows, chunks)
        self._narrow()
        return following

    def decode_from(self, read, rows, num_steps=None):
        iteration = super().decode_from(read, rows, num_steps)
        self._narrow()
        return iteration

    def _narrow(self):
        for name in ("topk_p", "topk_index") if self.width is not None else ():
            self._waiting.carried[name][:, self.width :] = 0


class LostRowWorker(ReferenceWorker):
    """Takes the rows that the worker before had written for written."""

    known = frozenset()

    def resized(self, config):
        other = super().resized(config)
        (rows,) = self._waiting.carried["seq_lens"].nonzero()
        other.known = set(rows.tolist())
        return other

    def assign_slots(self, ranges):
        super().assign_slots([given for given in ranges if given.row not in self.known])
        self.known = self.known - {given.row for given in ranges}


class LostPoolsWorker(ReferenceWorker):
    """Goes on in pools of its own."""

    def resized(self, config):
        return type(self)(config, self.model, self.sizes)


class CopyingWorker(ReferenceWorker):
    """Goes on in a copy of the pools, so that a request that comes back misses what has been written since."""

    def resized(self, config):
        pools = deepcopy(self._pools)
        return type(self)(config, self.model, self.sizes, make_pools=lambda *_: pools)


class ShrinkingWorker(ReferenceWorker):
    """Says that it is another one, and stays as it is."""

    def resized(self, config):
        return self


FAULTY = (StaleDraftWorker, OldWidthWorker, LostRowWorker, LostPoolsWorker, CopyingWorker, ShrinkingWorker)
