from pathlib import Path

from specsim.rejection import Reason, SpecRejection


def test_message_says_what_got_expected_because():
    rejection = SpecRejection(
        Reason.NODE_OUT_OF_RANGE, what="x[3]", got=9, expected="0 to 7", because="trees end there"
    )
    assert str(rejection) == "NODE_OUT_OF_RANGE: x[3] is 9, but should be 0 to 7, because trees end there"
    assert (rejection.reason, rejection.what, rejection.got) == (Reason.NODE_OUT_OF_RANGE, "x[3]", 9)
    assert isinstance(rejection, ValueError)


def test_each_reason_is_one_sentence():
    for reason in Reason:
        assert reason.value.endswith(".") and reason.value.count(".") == 1, reason
    assert len({reason.value for reason in Reason}) == len(Reason)


def test_every_reason_is_given():
    root = Path(__file__).parents[2]
    sources = [path for folder in ("specsim", "reference", "gpu") for path in (root / folder).rglob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    assert not [reason.name for reason in Reason if f"Reason.{reason.name}" not in text]
