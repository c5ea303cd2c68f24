from executor.admission.suggest import mend_arguments, mend_json
from executor.model.errors import Violation
from executor.model.limits import Limits
from executor.model.tool import Command, Effect, Example, Policy, Tool


def tool(properties, required=(), examples=()):
    return Tool(
        name="t",
        version="1.0.0",
        description="",
        parameters={"type": "object", "properties": properties, "required": list(required)},
        effect=Effect.READ_ONLY,
        policy=Policy(image="host", limits=Limits()),
        command=Command(argv=("t",)),
        examples=examples,
    )


def test_an_example_shows_what_json_is_meant():
    text = mend_json(tool({"a": {}}, ["a"], (Example(arguments={"a": 1}),)))
    assert (
        text == 'Send the arguments of `t` as one strict JSON object, such as {"a":1}. Required: `a`; optional: none.'
    )


def test_a_tool_without_parameters_says_so():
    assert mend_json(tool({})).endswith("It takes no arguments: {}.")


def test_each_kind_of_violation_has_its_own_step():
    found = (
        Violation(pointer="/citynam", keyword="additionalProperties", message=""),
        Violation(pointer="/zzz", keyword="additionalProperties", message=""),
        Violation(pointer="", keyword="required", message="`days` is required and missing."),
        Violation(pointer="/city_name", keyword="type", message=""),
    )
    text = mend_arguments(tool({"city_name": {}, "days": {}}), found)
    assert text.startswith(
        "Rename `citynam` to `city_name`; leave out `/zzz`; add `days`; mend `/city_name`; then call `t` again."
    )


def test_a_violation_of_the_whole_has_a_step_too():
    text = mend_arguments(tool({"a": {}}), (Violation(pointer="", keyword="minProperties", message=""),))
    assert text.startswith("Mend what the violations name; then call `t` again.")
