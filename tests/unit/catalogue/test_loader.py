import json
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.catalogue.diagnostic import Severity
from executor.catalogue.loader import Source, load_one
from executor.model.limits import LEAST, LIMIT_NAMES, MOST

GOOD = """\
name: greet
version: "1.0.0"
description: >-
  Greet a person by name and return one line of text with the greeting. Do not use it to greet more than one person.
effect: read_only
parameters:
  type: object
  additionalProperties: false
  required: [who]
  properties:
    who:
      type: string
      description: Name of the person.
    loud:
      type: boolean
      description: Whether to shout.
      default: false
examples:
  - arguments: {who: Ada}
command:
  argv: [greet, "--loud={{loud}}", --, "{{who}}"]
"""


def said(text):
    loaded, diagnostics = load_one(Source("greet.yaml", text.encode()), "host")
    assert (loaded is None) == any(d.severity is Severity.ERROR for d in diagnostics)
    return {(d.rule, d.line): d for d in diagnostics}


def changed(old, new):
    assert GOOD.count(old) == 1
    return said(GOOD.replace(old, new))


def test_a_good_manifest_has_nothing_said_about_it():
    assert said(GOOD) == {}


def test_a_good_manifest_becomes_a_tool():
    loaded, _ = load_one(Source("greet.yaml", GOOD.encode()), "host")
    tool = loaded.tool
    assert (tool.name, tool.version, tool.policy.image, tool.policy.network) == ("greet", "1.0.0", "host", "none")
    assert tool.command.argv == ("greet", "--loud={{loud}}", "--", "{{who}}")
    assert tool.examples[0].arguments == {"who": "Ada"}
    assert (loaded.mark.line, loaded.mark.column) == (1, 1)


def test_a_diagnostic_reads_as_file_line_column():
    (diagnostic,) = changed("effect: read_only", "efect: read_only\neffect: read_only").values()
    assert str(diagnostic).startswith("greet.yaml:5:1: error: there is no key `efect` here; did you mean `effect`?")
    assert str(diagnostic).endswith("[unknown-key]")


@pytest.mark.parametrize(
    ("old", "new", "rule", "line", "severity"),
    [
        ("name: greet", "name: 1greet", "tool-name", 1, "error"),
        ("name: greet", f"name: {'x' * 65}", "tool-name", 1, "error"),
        ('version: "1.0.0"', "version: 1.0", "tool-version", 2, "error"),
        ('version: "1.0.0"', 'version: "1.0"', "tool-version", 2, "error"),
        ("effect: read_only", "effect: harmless", "wrong-value", 5, "error"),
        ("effect: read_only", "effect: destructive", "effect-without-means", 5, "warning"),
        ("effect: read_only\n", "", "missing-key", 1, "error"),
        (
            "with the greeting. Do not use it to greet more than one person.",
            "here.",
            "description-when-not",
            3,
            "warning",
        ),
        ("who]", "whom]", "required-unknown", 9, "error"),
        ("  additionalProperties: false\n", "", "open-object", 6, "error"),
        ("      description: Name of the person.\n", "", "parameter-description", 11, "error"),
        ("      type: string\n", "", "parameter-type", 11, "error"),
        ("type: string", "type: text", "invalid-schema", 12, "error"),
        ("default: false", "default: 3", "default-invalid", 17, "error"),
        ("{who: Ada}", "{who: 1}", "example-invalid", 19, "error"),
        ("{who: Ada}", "{}", "example-invalid", 19, "error"),
        ('--, "{{who}}"', '--, "{{whom}}"', "template-unknown", 21, "error"),
        ('--, "{{who}}"', '"{{who}}"', "template-option", 21, "error"),
        ('--, "{{who}}"', '"{{who}}", --', "template-option", 21, "error"),
        ("[greet, ", '["{{who}}", ', "template-program", 21, "error"),
        ('--, "{{who}}"', '--, "{{ who }}"', "template-white-space", 21, "error"),
        (', --, "{{who}}"', "", "parameter-unused", 11, "warning"),
        ("[greet,", '[bash, -c, "echo {{who}}",', "template-code", 21, "error"),
        ("[greet,", '[env, python3, -c, "print({{who}})",', "template-code", 21, "error"),
        ("[greet,", '["gr\\0eet",', "nul", 21, "error"),
        ("command:\n", "internal: read_output\ncommand:\n", "one-command", 1, "error"),
        ("command:\n", "network: host\ncommand:\n", "network", 20, "error"),
        ("command:\n", "limits: {memory: 1}\ncommand:\n", "limit", 20, "error"),
        ("command:\n", "limits: {wall_seconds: 0}\ncommand:\n", "limit", 20, "error"),
        ("command:\n", "limits: {wall_seconds: -1}\ncommand:\n", "limit", 20, "error"),
        ("command:\n", "limits: {processes: 1.5}\ncommand:\n", "limit", 20, "error"),
        ("command:\n", "limits: {processes: true}\ncommand:\n", "limit", 20, "error"),
        ("command:\n", "limits: {text_bytes: 1048577}\ncommand:\n", "limit", 20, "error"),
        ("command:\n", "limits: {open_files: 15}\ncommand:\n", "limit", 20, "error"),
        ("command:\n", "exit_codes: {0: {message: fine}}\ncommand:\n", "exit-code", 20, "error"),
        ("command:\n", "exit_codes: {256: {message: fine}}\ncommand:\n", "exit-code", 20, "error"),
        ("command:\n", "exit_codes: {3: {mesage: fine}}\ncommand:\n", "unknown-key", 20, "error"),
        ("command:\n", "concurrency: 0\ncommand:\n", "wrong-value", 20, "error"),
        ("command:\n", "idempotent: NO\ncommand:\n", "wrong-value", 20, "error"),
        ("command:\n", "command:\n  files: {../x: y}\n", "file-path", 21, "error"),
        ("command:\n", "command:\n  files: {a: y, a/b: z}\n", "file-path", 21, "error"),
        ("command:\n", 'command:\n  files: {"{{who}}": y}\n', "template-path", 21, "error"),
        ("command:\n", 'command:\n  environment: {X: "{{who}}"}\n', "template-environment", 21, "error"),
        ("command:\n", "command:\n  environment: {1X: y}\n", "environment-name", 21, "error"),
        ("command:\n", 'command:\n  environment: {X: "\\0"}\n', "nul", 21, "error"),
        ("name: greet", "name: greet\nname: other", "duplicate-key", 2, "error"),
    ],
)
def test_each_rule_tells_the_line_of_what_is_wrong(old, new, rule, line, severity):
    diagnostics = changed(old, new)
    assert (rule, line) in diagnostics
    assert diagnostics[rule, line].severity == severity
    assert diagnostics[rule, line].column >= 1


@pytest.mark.parametrize(
    "argv",
    [
        '[greet, "--who={{who}}", "--loud={{loud}}"]',
        '[greet, --, "{{who}}", "{{loud}}"]',
        '[bash, -c, \'printf %s "$1"\', --, "{{who}}", "{{loud}}"]',
        '[python3, main.py, "-c{{who}}", "--loud={{loud}}"]',
    ],
)
def test_a_placeholder_that_stays_one_value_is_fine(argv):
    assert changed('[greet, "--loud={{loud}}", --, "{{who}}"]', argv) == {}


def test_a_typed_map_below_the_root_is_not_open():
    more = "    ages:\n      type: object\n      description: By name.\n      additionalProperties: {type: integer}\n"
    diagnostics = changed("examples:\n", more + "examples:\n")
    assert {rule for rule, _ in diagnostics} == {"parameter-unused"}


def test_a_nested_open_object_is_told():
    more = "    at:\n      type: array\n      description: Places.\n      items: {type: object}\n"
    assert ("open-object", 21) in changed("examples:\n", more + "examples:\n")


def test_all_errors_of_a_file_are_told_at_once():
    text = GOOD.replace("name: greet", "name: 9").replace("effect: read_only", "effect: x").replace("[greet,", "[")
    assert {rule for rule, _ in said(text)} >= {"wrong-value"}
    assert len(said(text)) == 2


@pytest.mark.parametrize("text", ["[]", "3", "text", "null"])
def test_a_document_that_is_no_mapping_is_refused(text):
    assert ("wrong-type", 1) in said(text)


def test_the_digest_covers_the_image_the_limits_and_nothing_of_the_layout():
    def digest(text, image="host"):
        return load_one(Source("x", text.encode()), image)[0].tool.digest

    same = textwrap.dedent(GOOD).replace("[who]", "\n    - who") + "# a comment\nconcurrency: 16\nimage: host\n"
    assert digest(same) == digest(GOOD)
    assert digest(GOOD).startswith("sha256:")
    others = {digest(GOOD, "other"), digest(GOOD + "limits: {processes: 3}\n"), digest(GOOD + "idempotent: true\n")}
    assert len(others | {digest(GOOD)}) == 4


@given(
    st.integers(0, len(GOOD)),
    st.integers(0, 30),
    st.sampled_from(["", "3", "[]", "{}", "null", "true", "x: y", '"{{who}}"', "\n", " ", "- ", "$ref: x", "[", ": "]),
)
def test_a_damaged_manifest_is_told_and_never_a_traceback(start, length, put_in):
    loaded, diagnostics = load_one(Source("x", (GOOD[:start] + put_in + GOOD[start + length :]).encode()), "host")
    assert (loaded is None) == any(d.severity is Severity.ERROR for d in diagnostics)


@pytest.mark.parametrize(
    "key", ["properties", "required", "anyOf", "items", "$defs", "type", "additionalProperties", "prefixItems"]
)
@pytest.mark.parametrize("value", [3, "text", None, True, [], {}, [3], {"a": 3}, {"a": None}, [[]], {"a": True}])
def test_any_value_of_a_schema_keyword_is_told_and_never_a_traceback(key, value):
    assert (
        changed("  required: [who]\n", f"  $comment: x\n  not: {{{json.dumps(key)}: {json.dumps(value)}}}\n")
        is not None
    )
    schema = {"type": "object", "additionalProperties": False, key: value}
    text = GOOD[: GOOD.index("parameters:")] + f"parameters: {json.dumps(schema)}\n" + GOOD[GOOD.index("command:") :]
    assert said(text)


@pytest.mark.parametrize("name", LIMIT_NAMES)
def test_a_limit_is_refused_beyond_the_most_and_told_it(name):
    assert changed("command:\n", f"limits: {{{name}: {MOST[name]}}}\ncommand:\n") == {}
    for value in (int(MOST[name]) + 1, 2**53 - 1):
        (diagnostic,) = changed("command:\n", f"limits: {{{name}: {value}}}\ncommand:\n").values()
        assert diagnostic.rule == "limit"
        assert diagnostic.message == f"`{name}` must be at most {MOST[name]}"


@pytest.mark.parametrize(("name", "value"), [("memory_bytes", 4194303), ("open_files", 15), ("cpu_cores", 0.009)])
def test_a_limit_that_no_sandbox_can_live_with_is_refused_and_told_the_least(name, value):
    assert changed("command:\n", f"limits: {{{name}: {LEAST[name]}}}\ncommand:\n") == {}
    (diagnostic,) = changed("command:\n", f"limits: {{{name}: {value}}}\ncommand:\n").values()
    assert diagnostic.message == f"`{name}` must be at least {LEAST[name]}; no sandbox can be made with less"
