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
