"""The installed command line on a terminal, as a person uses it."""

import pytest

from tests.support.cli import environment, eventually, is_running, on_terminal


@pytest.fixture
def env(tmp_path):
    return environment(tmp_path / "state")


def test_an_outcome_is_shown_with_colours_and_what_it_cost(env):
    with on_terminal("run", "shell", "-a", "command=printf hello", env=env) as terminal:
        status, shown = terminal.end()
    assert status == 0
    assert shown.startswith("hello\r\n")
    assert "\x1b[1;32mCOMPLETED" in shown
    assert "usage" in shown


def test_a_failure_is_shown_with_what_to_do(env):
    with on_terminal("run", "shel", env=env) as terminal:
        status, shown = terminal.end()
    assert status == 1
    assert "\x1b[1;31mFAILED" in shown
    assert "did you mean `shell`?" in shown


def test_text_that_looks_like_markup_is_shown_as_it_is(env):
    with on_terminal("run", "[red]x[/red]", env=env) as terminal:
        status, shown = terminal.end()
    assert status == 1
    assert "[red]x[/red]" in shown


def test_ctrl_c_ends_the_call_with_its_tree(env):
    with on_terminal("run", "shell", "-a", "command=sleep 86421", env=env) as terminal:
        eventually(lambda: is_running("sleep", "86421"), "the tool runs")
        terminal.type(b"\x03")
        status, shown = terminal.end()
    assert status == 1
    assert "CANCELLED" in shown
    assert "Traceback" not in shown
    assert not is_running("sleep", "86421")


def test_code_can_be_typed_and_ended_with_ctrl_d(env):
    with on_terminal("run", "python", "-a", "code=@-", env=env) as terminal:
        terminal.type(b"print(6 * 7)\r\x04")
        status, shown = terminal.end()
    assert status == 0
    assert "\n42\r\n" in shown


def test_ctrl_c_while_code_is_typed_gives_up(env):
    with on_terminal("run", "python", "-a", "code=@-", env=env) as terminal:
        eventually(terminal.waits_for_input, "it reads the terminal")
        terminal.type(b"\x03")
        status, shown = terminal.end()
    assert status == 1
    assert "executor: interrupted" in shown
    assert "Traceback" not in shown


def test_the_tools_are_shown_as_a_table(env):
    with on_terminal("tools", "list", env=env) as terminal:
        status, shown = terminal.end()
    assert status == 0
    assert "TOOL" in shown
    assert "\t" not in shown


def test_misuse_is_one_line(env):
    with on_terminal("run", "shell", "--nope", env=env) as terminal:
        status, shown = terminal.end()
    assert status == 2
    assert shown.count("\n") == 1
