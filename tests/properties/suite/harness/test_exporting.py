"""What the harness says of an engine's export: a small engine of one request, right and with each fault."""

import pytest

from specsim import Reason, SpecRejection
from specsim.properties.harness import WrittenSlots

TEXT, PAGE = [3, 1, 4, 1, 5, 9, 2, 6, 5], 4


class Engine:
    """Has fed a prompt of five, then drafts of which it accepted some; the nodes of its last verify lie elsewhere."""

    def __init__(self):
        self.written = WrittenSlots()
        self.slots = list(range(8, 24))
        self.written.write(self.slots[:5], TEXT[:5], range(5))
        self.written.commit(self.slots[:5])
        self.written.checkpoint(1, 4)
        self.written.write([self.slots[5], 30, 31, 32], [9, 7, 2, 6], [5, 6, 6, 7])
        self.written.write([self.slots[8]], [8], [8])

    def compact(self):
        """Bring what was accepted to its positions."""
        self.written.commit([self.slots[5], 31, 32])
        self.written.move(self.slots[6:8], [31, 32])

    def export(self, count=8, draft=7, states=4, **changed):
        tokens, slots = changed.get("tokens", TEXT[:count]), changed.get("slots", self.slots[:count])
        return lambda row: (tokens, slots, (count, draft, states))


@pytest.fixture
def engine():
    """Return an engine after its compaction."""
    engine = Engine()
    engine.compact()
    return engine


def test_committed_text_leaves(engine):
    assert engine.written.check(engine.export(), 1, TEXT) == 8
    assert engine.written.check(engine.export(count=4, draft=0, states=0), 1, TEXT) == 4


def test_an_end_cuts_what_leaves(engine):
    assert engine.written.check(engine.export(count=7), 1, TEXT[:7], num_tokens=9) == 7
    with pytest.raises(AssertionError, match="the last token was never fed"):
        engine.written.check(engine.export(), 1, TEXT[:7], num_tokens=9)


def test_the_last_token_was_never_fed(engine):
    with pytest.raises(AssertionError, match="as position 8 of row 1 = token 8 at 8, which was not committed"):
        engine.written.check(engine.export(count=9), 1, TEXT)


def test_an_export_before_the_compaction_has_a_node_in_the_place_of_text():
    early = Engine()
    with pytest.raises(AssertionError, match="as position 5 of row 1 = token 9 at 5, which was not committed"):
        early.written.check(early.export(), 1, TEXT)


def test_states_leave_where_they_were_kept(engine):
    for states in (3, 5, 8):
        with pytest.raises(AssertionError, match="tokens in the states of row 1"):
            engine.written.check(engine.export(states=states), 1, TEXT)


def test_a_list_that_was_not_cut_has_more_slots_than_tokens(engine):
    with pytest.raises(AssertionError, match="slots of row 1 that leave = 16, but should be 8"):
        engine.written.check(engine.export(slots=engine.slots), 1, TEXT)


def test_key_and_content_are_compared(engine):
    with pytest.raises(AssertionError, match="token of slot 8"):
        engine.written.check(engine.export(tokens=[7, *TEXT[1:8]]), 1, TEXT)
    with pytest.raises(AssertionError, match="tokens of row 1 that leave = 7, but should be 8"):
        engine.written.check(engine.export(tokens=TEXT[:7]), 1, TEXT)
    swapped = [engine.slots[1], engine.slots[0], *engine.slots[2:8]]
    with pytest.raises(AssertionError, match=r"slot 9, which leaves as position 0 of row 1 = \(1, 1\)"):
        engine.written.check(engine.export(slots=swapped), 1, TEXT)
    with pytest.raises(AssertionError, match="nothing was written there"):
        engine.written.check(engine.export(slots=[99, *engine.slots[1:8]]), 1, TEXT)
    with pytest.raises(AssertionError, match="draft positions of row 1"):
        engine.written.check(engine.export(draft=9), 1, TEXT)


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (lambda written: written.write([1, 2], [3], [0]), Reason.INCONSISTENT_LENGTHS),
        (lambda written: written.move([1, 2], [8]), Reason.INCONSISTENT_LENGTHS),
        (lambda written: written.move([1], [99]), Reason.SLOT_OUT_OF_RANGE),
        (lambda written: written.commit([99]), Reason.SLOT_OUT_OF_RANGE),
        (lambda written: written.check(lambda row: ([], [], (0, 0, 0)), 1, TEXT, 5), Reason.COUNT_OUT_OF_RANGE),
    ],
    ids=[
        "a slot without a token",
        "a target without a source",
        "an unwritten source",
        "an unwritten slot",
        "a long text",
    ],
)
def test_reports_that_contradict_are_refused(engine, report, reason):
    with pytest.raises(SpecRejection) as refusal:
        report(engine.written)
    assert refusal.value.reason is reason
