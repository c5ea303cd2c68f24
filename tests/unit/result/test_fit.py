import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.result import fit, neutral

dirty = st.lists(
    st.one_of(
        st.binary(max_size=9),
        st.sampled_from([b"\xed\xa0\x80", b"\xed", b"\x80", b"\r\n", b"\r", b"\n", b"\0", b"ab"]),
        st.sampled_from(["\u202e", "€", "😀", "\U000e0041"]).map(str.encode),
    )
).map(lambda pieces: neutral.decode(b"".join(pieces)))


@pytest.fixture(autouse=True, params=[1, 4, 1024])
def block(request, monkeypatch):
    monkeypatch.setattr(fit, "_BLOCK", request.param)


def needed(text: str) -> int:
    return len(neutral.neutralise(text).encode())


def whole_cuts(text: str) -> list[int]:
    return [at for at in range(len(text) + 1) if neutral.parted(text, at) == (at, at)]


@given(dirty, st.integers(0, 80))
def test_the_beginning_is_the_longest_that_fits(text, room):
    part = fit.beginning(text, room)
    assert part.shown == neutral.neutralise(text[: part.border])
    assert part.border == max(at for at in whole_cuts(text) if needed(text[:at]) <= room)


@given(dirty, st.integers(0, 80))
def test_the_end_is_the_longest_that_fits(text, room):
    part = fit.end(text, room)
    assert part.shown == neutral.neutralise(text[part.border :])
    assert part.border == min(at for at in whole_cuts(text) if needed(text[at:]) <= room)


@pytest.mark.parametrize("text", ["", "\r\n", "x"])
def test_no_room_shows_nothing(text):
    assert fit.beginning(text, 0) == (0, "")
    assert fit.end(text, 0) == (len(text), "")
