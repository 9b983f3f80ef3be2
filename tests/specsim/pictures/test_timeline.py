from specsim.pictures import Activity, Column, Moment, draw_timeline
from tests.specsim.pictures.parsed import boxes_of, tags_of, texts_of, words_of

ENDED = Moment(Activity.FINISHED)
COLUMNS = [
    Column("prefill", (Moment(Activity.PREFILL, "8"), Moment(Activity.WAITING)), 8, (0,)),
    Column("verify", (Moment(Activity.VERIFY, "1/2"), Moment(Activity.IDLE)), 14),
    Column("verify", (Moment(Activity.VERIFY, "2/2", "length"), Moment(Activity.RETRACTED)), 20, (1,)),
    Column("verify", (Moment(Activity.DROPPED, "0/2"), ENDED), 6, (2, 3)),
]


def test_requests_are_rows_and_launches_are_columns():
    svg = draw_timeline(["request 0", "request 1"], COLUMNS, 32)
    boxes = boxes_of(svg, "activity")
    assert [box.marks["activity"] for box in boxes] == [
        *("prefill", "verify", "verify", "dropped"),
        *("waiting", "idle", "retracted", "finished"),
    ]
    assert [box.lines for box in boxes if box.lines] == [("8",), ("1/2",), ("2/2",), ("0/2",), ("x",)]
    assert [place for place, box in enumerate(boxes) if "ends" in box.marks] == [2]
    tops = {box.top for box in boxes if box.width}
    assert len(tops) == 2


def test_streams_run_beside_each_other_where_the_host_does_not_wait():
    svg = draw_timeline(["request 0", "request 1"], COLUMNS, 32)
    streams = boxes_of(svg, "streams")
    assert [(box.marks["streams"], box.lines) for box in streams] == [
        ("in turn", ("0", "0")),
        ("overlapped", ("1",)),
        ("overlapped", ("2", "1")),
        ("in turn", ("3", "2", "3")),
    ]
    assert streams[0].width < streams[1].width


def test_slots_in_use_have_axes_with_units():
    texts = texts_of(draw_timeline(["request 0", "request 1"], COLUMNS, 1234))
    assert texts[-4:] == ["slots in use", "0", "20", "most 20 of 1,234 slots"]
    assert "launch" in texts


def test_the_description_says_the_same():
    _, words = words_of(draw_timeline(["request 0", "request 1"], COLUMNS, 32))
    assert words == (
        "timeline. request 0: launch 0 prefill, prompt tokens 8, "
        "launch 1 draft and verify, accepted/proposed drafts 1/2, "
        "launch 2 draft and verify, accepted/proposed drafts 2/2, ends: length, launch 3 result dropped 0/2. "
        "request 1: launch 0 waits for a row, launch 1 idle, launch 2 retracted. "
        "launch 0: the host reads 0 after it; 8 slots in use. launch 2: the host reads 1 meanwhile; 20 slots in use. "
        "launch 3: the host reads 2,3 after it; 6 slots in use. most 20 of 32 slots."
    )


def test_a_run_of_nothing_and_strange_names_are_drawn():
    assert "most 0 of 0 slots" in texts_of(draw_timeline([], [], 0))
    planted = "</text><script>alert(1)</script>"
    column = Column(planted, (Moment(Activity.VERIFY, planted, planted),), 1)
    svg = draw_timeline([planted], [column], 1, planted, [planted], prefix='"><script>')
    assert "script" not in tags_of(svg)
    assert texts_of(svg).count(planted) == 4
