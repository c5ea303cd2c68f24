import pytest

from executor.schema.nearest import brief, did_you_mean, listed, nearest


@pytest.mark.parametrize(
    ("name", "found"),
    [("pyton", "python"), ("cityName", "city_name"), ("City-Name", "city_name"), ("zzz", None), ("", None)],
)
def test_the_nearest_name_is_found_across_spellings(name, found):
    assert nearest(name, ["python", "city_name", "shell"]) == found


def test_a_guess_is_a_part_of_a_sentence():
    assert did_you_mean("shel", ["shell"]) == "did you mean `shell`?"
    assert did_you_mean("zzz", ["shell"]) == ""


def test_a_list_of_names_says_how_many_it_left_out():
    assert listed(["a", "b", "c"], limit=2) == "`a`, `b` and 1 more"
    assert listed([]) == "none"


def test_a_long_text_keeps_its_two_ends():
    assert brief("a" * 50 + "b" * 50, 23) == "a" * 10 + "..." + "b" * 10
    assert brief("short", 23) == "short"
