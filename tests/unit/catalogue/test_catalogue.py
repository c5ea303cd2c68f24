import os
import socket
from dataclasses import replace

import pytest

from executor.catalogue.catalogue import Catalogue, lint, load
from executor.catalogue.diagnostic import Severity
from executor.model.errors import ErrorCode, InvocationError, Misconfigured
from executor.schema.validator import compiled, violations

MANIFEST = """\
name: {name}
version: "{version}"
description: Return the word that it was made for, and nothing else at all. Do not use it for any other word.
effect: read_only
parameters: {{type: object, additionalProperties: false, properties: {{}}}}
command: {{argv: [echo, {word}]}}
"""


@pytest.fixture
def write(tmp_path):
    def write(file, name="word", version="1.0.0", word="x"):
        (tmp_path / file).write_text(MANIFEST.format(name=name, version=version, word=word))
        return tmp_path

    return write


@pytest.mark.parametrize("kind", ["fifo", "socket", "directory", "device"])
@pytest.mark.parametrize("named", [True, False])
def test_what_is_no_regular_file_is_told_and_not_waited_for(tmp_path, kind, named):
    place = tmp_path / "tool.yaml"
    with socket.socket(socket.AF_UNIX) as listener:
        match kind:
            case "fifo":
                os.mkfifo(place)
            case "socket":
                listener.bind(str(place))
            case "directory":
                (place / "within").mkdir(parents=True)
            case "device":
                place.symlink_to("/dev/zero")
        said = lint([place if named else tmp_path], "host")
    if named and kind == "directory":
        assert [(d.file, d.rule) for d in said] == [(str(place), "no-manifest")]
    else:
        assert [(d.file, d.rule, d.severity) for d in said] == [(str(place), "unreadable", Severity.ERROR)]


def test_a_manifest_that_is_too_large_is_told_without_reading_it_whole(tmp_path):
    with (tmp_path / "tool.yaml").open("wb") as file:
        file.truncate(2**36)
    assert [d.rule for d in lint([tmp_path], "host")] == ["yaml-size"]


def built_in():
    return load([], "host")[0]


def refusal(catalogue, *asked):
    with pytest.raises(InvocationError) as caught:
        catalogue.find(*asked)
    return caught.value.detail


def test_the_built_in_tools_are_there_without_a_word_from_the_lint():
    catalogue, warnings = load([], "host")
    assert [tool.name for tool in catalogue.tools()] == ["node", "python", "read_output", "shell", "sqlite"]
    assert warnings == ()


def test_every_example_of_a_built_in_tool_validates_and_there_are_some():
    for tool in built_in().tools():
        assert tool.examples
        validator = compiled(tool.parameters)
        assert [violations(validator, tool.parameters, example.arguments) for example in tool.examples] == [
            () for _ in tool.examples
        ]


def test_an_unknown_tool_names_the_nearest_and_all_that_exist():
    detail = refusal(built_in(), "pyhton")
    assert detail.code is ErrorCode.UNKNOWN_TOOL
    assert detail.message == "There is no tool `pyhton`; did you mean `python`?"
    assert "`node`, `python`, `read_output`, `shell`, `sqlite`" in detail.suggestion


@pytest.mark.parametrize("name", ["", "x" * 1_000_000, "\ud800", "\0", "../python"])
def test_any_text_may_be_asked_for(name):
    detail = refusal(built_in(), name)
    assert detail.code is ErrorCode.UNKNOWN_TOOL
    assert len(detail.message.encode()) < 500


def test_an_unknown_version_lists_the_versions():
    detail = refusal(built_in(), "python", "9.9.9")
    assert detail.code is ErrorCode.UNKNOWN_VERSION
    assert "`1.0.0`" in detail.suggestion


def test_the_newest_version_is_the_highest_and_a_prerelease_only_without_a_release():
    python = built_in().find("python")
    catalogue = Catalogue.of(replace(python, version=v) for v in ("1.2.0", "2.0.0-rc.1", "1.10.0", "1.9.0"))
    assert catalogue.find("python").version == "1.10.0"
    assert catalogue.versions("python") == ("1.10.0", "1.9.0", "1.2.0", "2.0.0-rc.1")
    assert catalogue.find("python", "2.0.0-rc.1").version == "2.0.0-rc.1"
    early = Catalogue.of(replace(python, version=v) for v in ("1.0.0-alpha", "1.0.0-beta"))
    assert early.find("python").version == "1.0.0-beta"


def test_manifests_of_a_directory_join_the_built_in_ones(write):
    write("a.yaml", word="x")
    catalogue, _ = load([write("b.yml", version="1.1.0")], "host")
    assert catalogue.versions("word") == ("1.1.0", "1.0.0")
    assert len(catalogue.every_version()) == 7


def test_other_files_and_subdirectories_are_not_read(write):
    directory = write("a.yaml")
    (directory / "notes.txt").write_text("{{{")
    (directory / "sub").mkdir()
    assert [t.name for t in load([directory], "host", builtin=False)[0].tools()] == ["word"]


def test_one_version_cannot_be_two_things(write):
    write("a.yaml", word="x")
    with pytest.raises(Misconfigured, match=r"b\.yaml:1:1: error: `word` 1\.0\.0 is declared differently in .*a\.yaml"):
        load([write("b.yaml", word="y")], "host")


def test_an_operator_cannot_silently_replace_a_built_in_tool(write):
    with pytest.raises(Misconfigured, match=r"declared differently in builtin/python\.yaml"):
        load([write("a.yaml", name="python")], "host")


def test_an_operator_may_add_a_version_of_a_built_in_tool(write):
    catalogue, _ = load([write("a.yaml", name="python", version="1.0.1")], "host")
    assert catalogue.versions("python") == ("1.0.1", "1.0.0")


def test_the_same_manifest_twice_is_a_warning(write):
    write("a.yaml")
    catalogue, warnings = load([write("b.yaml")], "host", builtin=False)
    assert [w.rule for w in warnings] == ["declared-twice"]
    assert catalogue.versions("word") == ("1.0.0",)


def test_all_errors_of_all_files_are_listed(write):
    write("a.yaml", name="1")
    with pytest.raises(Misconfigured) as caught:
        load([write("b.yaml", version="one")], "host")
    assert "2 errors" in str(caught.value)
    assert "a.yaml:1:7" in str(caught.value)
    assert "b.yaml:2:10" in str(caught.value)


def test_a_directory_that_is_not_there_is_an_error(tmp_path):
    (diagnostic,) = lint([tmp_path / "none"], "host", builtin=False)
    assert (diagnostic.rule, diagnostic.severity) == ("unreadable", Severity.ERROR)
    assert "No such file" in diagnostic.message


def test_an_empty_directory_is_a_warning(tmp_path):
    assert [d.rule for d in lint([tmp_path], "host")] == ["no-manifest"]


def test_a_single_file_can_be_linted(write):
    assert lint([write("a.yaml") / "a.yaml"], "host", builtin=False) == ()
