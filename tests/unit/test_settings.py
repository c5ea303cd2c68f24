import math

import pytest

from executor import settings
from executor.model.errors import Misconfigured


def load(tmp_path=None, text=None, environ=None, **chosen):
    config = None
    if text is not None:
        config = tmp_path / "executor.yaml"
        config.write_text(text)
    return settings.load(config, chosen, environ or {})


def fault(tmp_path=None, text=None, environ=None, **chosen):
    with pytest.raises(Misconfigured) as caught:
        load(tmp_path, text, environ, **chosen)
    return str(caught.value)


def test_defaults_need_no_file_and_no_environment():
    loaded = load()
    assert loaded.slots >= 1
    assert loaded.listen == ()
    assert loaded.default_image == "host"
    assert loaded.outputs_path == loaded.state_dir / "outputs"
    assert loaded.images_dir.parts[-2:] == ("executor", "images")


def test_root_keeps_its_state_with_the_machine_and_others_at_home(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert str(settings.default_state_dir()) == "/var/lib/executor"
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere/state")
    assert str(settings.default_state_dir()) == "/somewhere/state/executor"


def test_the_command_line_is_over_the_environment_and_that_over_the_file(tmp_path):
    text = "slots: 1\nqueue_length: 1\ndefault_image: data\n"
    environ = {"EXECUTOR_SLOTS": "2", "EXECUTOR_QUEUE_LENGTH": "2"}
    loaded = load(tmp_path, text, environ, slots=3, state_dir=None)
    assert (loaded.slots, loaded.queue_length, loaded.default_image) == (3, 2, "data")


def test_the_environment_may_name_the_file(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("slots: 7\n")
    assert load(environ={"EXECUTOR_CONFIG": str(config)}).slots == 7


def test_lists_are_written_with_commas_in_the_environment():
    loaded = load(environ={"EXECUTOR_LISTEN": "unix:/run/e.sock, 127.0.0.1:50051", "EXECUTOR_CATALOGUE": "/a,/b"})
    assert loaded.listen == ("unix:/run/e.sock", "127.0.0.1:50051")
    assert [str(path) for path in loaded.catalogue] == ["/a", "/b"]


def test_an_empty_variable_is_as_good_as_none():
    assert load(environ={"EXECUTOR_QUEUE_LENGTH": ""}).queue_length == 64


def test_paths_in_a_file_are_relative_to_that_file(tmp_path):
    loaded = load(tmp_path, "catalogue: [tools, /opt/tools]\nstate_dir: state\n")
    assert [str(path) for path in loaded.catalogue] == [f"{tmp_path}/tools", "/opt/tools"]
    assert loaded.state_dir == tmp_path / "state"


def test_an_unknown_key_of_a_file_is_refused_with_its_place_and_the_nearest_name(tmp_path):
    told = fault(tmp_path, "slots: 1\ndeny_tool: [shell]\n")
    assert f"{tmp_path}/executor.yaml:2:1: deny_tool: there is no such setting" in told
    assert "`deny_tools`" in told


def test_an_unknown_variable_is_refused_by_name():
    assert "EXECUTOR_DENY_TOOL: there is no such setting" in fault(environ={"EXECUTOR_DENY_TOOL": "shell"})


def test_the_variable_that_jenkins_sets_is_none_of_ours():
    assert load(environ={"EXECUTOR_NUMBER": "4"}) == load()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("slots: 0", "slots: input should be greater than or equal to 1, not 0"),
        ("slots: many", "slots: input should be a valid integer"),
        ("drain_seconds: -1", "drain_seconds: input should be greater than 0"),
        ("log_level: loud", "log_level: input should be 'debug', 'info', 'warning' or 'error', not 'loud'"),
        ("state_dir: 7", "state_dir: "),
        ("catalogue: 7", "catalogue: "),
        ("[1]", "not a mapping"),
        ("a: [", "not valid YAML"),
        ("slots: 1\nslots: 2", "2:1: the key `slots` stands here for the second time"),
    ],
)
def test_a_fault_in_a_file_is_named_with_key_and_reason(tmp_path, text, part):
    told = fault(tmp_path, text)
    assert part in told
    assert "executor.yaml" in told


def test_every_fault_is_told_at_once_by_the_name_that_the_user_wrote():
    told = fault(environ={"EXECUTOR_SLOTS": "x"}, queue_length=-1)
    assert "EXECUTOR_SLOTS: " in told
    assert "--queue-length: " in told


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(Misconfigured, match=r"nowhere\.yaml cannot be read: No such file"):
        settings.load(tmp_path / "nowhere.yaml", {}, {})


@pytest.mark.parametrize("name", ["queue_timeout_seconds", "heartbeat_seconds", "drain_seconds", "output_ttl_seconds"])
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan])
def test_no_duration_means_for_ever(name, value):
    assert name.replace("_", "-") in fault(**{name: value})
