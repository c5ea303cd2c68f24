import json
from pathlib import Path

HERE = Path(__file__).parent


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)


def test_the_list_says_why_a_tool_cannot_run_here(executor):
    rows = [line.split("\t") for line in executor("tools", "list").out.splitlines()]
    assert rows[0] == ["TOOL", "VERSION", "EFFECT", "IMAGE", "AVAILABLE"]
    available = {row[0]: row[4] for row in rows[1:]}
    assert available["echo"] == "yes"
    assert available["read_output"] == "yes"
    assert available["python"].startswith("the image 'host' has no program")


def test_an_image_that_is_not_there_is_named(executor, monkeypatch):
    monkeypatch.setenv("EXECUTOR_DEFAULT_IMAGE", "data")
    listed = json.loads(executor("tools", "list", "--output", "json").out)
    assert {tool["name"]: tool.get("unavailable") for tool in listed}["echo"].startswith("there is no image 'data'")


def test_the_list_is_given_also_where_nothing_can_run(executor, backend):
    backend._unavailable = "no user namespaces here"
    ran = executor("tools", "list", "--output", "json")
    assert ran.status == 0
    unavailable = {tool["name"]: tool.get("unavailable") for tool in json.loads(ran.out)}
    assert unavailable["echo"] == "no user namespaces here"
    assert unavailable["read_output"] is None


def test_a_tool_is_shown_with_parameters_and_versions(executor):
    shown = json.loads(executor("tools", "show", "echo", "--output", "json").out)
    assert shown["versions"] == ["1.0.0"]
    assert shown["parameters"]["properties"]["count"]["type"] == "integer"
    assert shown["effect"] == "READ_ONLY"
    assert "description: Plays the program echo" in executor("tools", "show", "echo").out


def test_an_unknown_tool_or_version_is_misuse_that_names_the_nearest(executor):
    ran = executor("tools", "show", "ecko")
    assert (ran.status, ran.out) == (2, "")
    assert "did you mean `echo`?" in ran.err
    assert executor("tools", "show", "echo", "--version", "9.0.0").status == 2


def test_a_clean_manifest_has_nothing_to_tell(executor):
    assert executor("tools", "lint", "tools/echo.yaml") == (0, "", "")


def test_warnings_are_told_and_give_0(executor):
    ran = executor("tools", "lint")
    assert ran.status == 0
    assert "quit.yaml:11:5: warning parameter-unused" in ran.out


def test_an_error_is_told_with_file_line_and_column_and_gives_1(executor, tmp_path):
    file = write(tmp_path / "bad/tool.yaml", "name: x\nversion: nope\n")
    ran = executor("tools", "lint", file)
    assert ran.status == 1
    first = ran.out.splitlines()[0]
    assert first.startswith(f"{file}:")
    place, text = first.removeprefix(f"{file}:").split(": ", 1)
    assert all(number.isdigit() for number in place.split(":"))
    assert text.startswith("error ")


def test_the_lint_as_json_has_the_same(executor, tmp_path):
    file = write(tmp_path / "bad/tool.yaml", "a: [")
    told = json.loads(executor("tools", "lint", file, "--output", "json").out)
    assert (told[0]["file"], told[0]["severity"], told[0]["rule"]) == (file, "error", "yaml-syntax")


def test_a_place_that_does_not_exist_is_an_error_of_the_lint(executor):
    ran = executor("tools", "lint", "/nowhere")
    assert ran.status == 1
    assert "unreadable" in ran.out


def test_a_broken_catalogue_gives_3_and_its_place(executor, tmp_path):
    write(tmp_path / "tools/broken.yaml", "a: [")
    ran = executor("tools", "list")
    assert ran.status == 3
    assert "broken.yaml:2:1: error" in ran.err


def test_a_denied_tool_that_does_not_exist_is_a_broken_setting(executor, monkeypatch):
    monkeypatch.setenv("EXECUTOR_DENY_TOOLS", "ecko")
    ran = executor("tools", "list")
    assert ran.status == 3
    assert "did you mean `echo`?" in ran.err
