import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_images.builder.globs import Selection, merged, translate


@pytest.mark.parametrize(
    ("shipped", "placed"),
    [
        ("./", ""),
        ("./lib", ""),
        ("./lib64/", ""),
        ("./bin/sh", "usr/bin/sh"),
        ("./lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2"),
        ("./usr/lib/x", "usr/lib/x"),
        ("./library/x", "library/x"),
        ("/etc//passwd", "etc/passwd"),
    ],
)
def test_what_ships_in_bin_or_lib_is_placed_in_usr(shipped, placed):
    assert merged(shipped) == placed


@given(st.text(alphabet="ab/.", max_size=12))
def test_merging_a_merged_path_changes_nothing(path):
    assert merged(merged(path)) == merged(path)


@pytest.mark.parametrize(
    ("path", "is_chosen"),
    [
        ("usr/share/doc", False),
        ("usr/share/doc/bash/README", False),
        ("usr/share/doc/bash/copyright", True),
        ("usr/share/doc/bash/examples/copyright", False),
        ("usr/share/docbook", True),
        ("lib/numpy/tests/test_a.py", False),
        ("lib/numpy/core/tests", False),
        ("lib/numpy/testing/utils.py", True),
        ("etc/cron.daily/apt", False),
    ],
)
def test_an_exclusion_covers_what_lies_below_and_keep_wins(path, is_chosen):
    selection = Selection(["usr/share/doc", "lib/**/tests", "etc/cron.*"], ["usr/share/doc/*/copyright"])
    assert (path in selection) is is_chosen


def test_without_globs_everything_is_chosen():
    assert "usr/share/doc" in Selection([], [])


@given(st.text(alphabet="a.+[]()^$|\\/", max_size=8))
def test_a_glob_without_wildcards_matches_itself_alone(path):
    assert re.fullmatch(translate(path), path)
    assert not re.fullmatch(translate(path), path + "a")
