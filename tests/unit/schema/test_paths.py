import pytest

from executor.schema.paths import parents, path_problem


@pytest.mark.parametrize("path", ["a", "a/b.txt", ".hidden", "..a", "a..", "-x", "a b", "é", "**/*.csv", "x" * 255])
def test_a_path_below_the_workspace_is_accepted(path):
    assert path_problem(path) is None


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("", "empty"),
        (".", "`.`"),
        ("./a", "`.`"),
        ("..", "leaves"),
        ("../x", "leaves"),
        ("a/../../x", "leaves"),
        ("/abs", "absolute"),
        ("/", "absolute"),
        ("a//b", "empty part"),
        ("a/", "empty part"),
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        ("x" * 256, "255 bytes"),
        ("é" * 128, "255 bytes"),
        ("/".join("a" * 65), "64 levels"),
        ("/".join(["x" * 255] * 17), "4095"),
    ],
)
def test_any_other_path_is_refused_with_its_reason(path, word):
    assert word in (path_problem(path) or "")


def test_parents_come_outermost_first():
    assert list(parents("a/b/c")) == ["a", "a/b"]
    assert list(parents("a")) == []
