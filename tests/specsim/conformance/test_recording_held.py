"""What the copies and the files of a recording take."""

from pathlib import Path

from specsim.conformance.recording.files import Folder
from specsim.conformance.recording.held import Held
from specsim.conformance.recording.kept import Kept


def test_a_place_that_is_taken_while_its_call_is_written_frees_its_copies_once():
    name = "fill_bonus_tokens"
    held = Held(limit=2, seed=0, max_bytes=20, max_call_bytes=20)
    older, newer = Kept(name, {}, 10), Kept(name, {}, 10)
    for kept in (older, newer):
        assert held.has_room(name, 1, 10)
        held.put(1, kept)
        kept.path = Path("written")
    assert not held.let_go(older)
    assert held.outdated() == []
    assert held.has_room(name, 0, 10) and not held.has_room(name, 0, 1)
    assert held.let_go(newer) and held.has_room(name, 0, 10)


def test_bytes_are_those_of_one_process(tmp_path):
    folder = Folder(tmp_path, "mine", 0, 1000, False)
    folder.num_bytes = 900
    folder.name_anew()
    assert folder.num_bytes == 0
