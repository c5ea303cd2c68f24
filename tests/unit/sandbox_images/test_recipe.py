import re
from pathlib import Path

import pytest

from sandbox_images.builder.errors import BuildError
from sandbox_images.builder.recipe import Template, load, parse

RECIPES = Path(__file__).parents[3] / "sandbox_images"
SMALLEST = "name: tiny\nsuite: bookworm\npackages: [bash]\n"


def test_the_smallest_recipe_has_empty_lists_for_the_rest():
    recipe = parse(SMALLEST, "image.yaml")
    assert (recipe.name, recipe.packages, recipe.wheels, dict(recipe.files)) == ("tiny", ("bash",), (), {})


def test_values_stay_text_where_yaml_would_make_numbers_and_truth_values_of_them():
    recipe = parse(SMALLEST + "python: 3.10\nenvironment: {FLAG: NO, COUNT: 010}\n", "image.yaml")
    assert recipe.python == "3.10"
    assert recipe.environment == {"FLAG": "NO", "COUNT": "010"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "must be a map of fields"),
        ("name: [", "is not valid YAML"),
        ("suite: bookworm\npackages: [bash]", "name: is missing"),
        ("name: ../etc\nsuite: bookworm\npackages: [bash]", "name: '../etc' does not match"),
        ("name: tiny\nsuite: bookworm", "packages: names no package"),
        (SMALLEST + "name: other", "the key name stands twice"),
        (SMALLEST + "package: [git]", "unknown field: package"),
        (SMALLEST + "without: git", "without: must be a list"),
        (SMALLEST + "exclude: [/etc]", "exclude: '/etc' must be a path relative"),
        (SMALLEST + "files: {../x: text}", "files: '../x' must be a path relative"),
        (SMALLEST + "files: {x: [text]}", "files: every value must be text"),
        (SMALLEST + "links: [a]", "links: must be a map"),
        (SMALLEST + "environment: {A-B: x}", "environment: 'A-B' does not match"),
        (SMALLEST + "checks: [git --version]", "checks: 'git --version' must be a list of words"),
        (SMALLEST + "bytecode: [usr/lib/python3]", "python: wheels and bytecode need the version"),
        (SMALLEST + "wheels: [{requirement: numpy==2}]", "wheels: numpy==2: sha256: must have a hash"),
        (SMALLEST + "wheels: [{requirement: numpy==2, sha256: [], x: y}]", "sha256: must have a hash"),
        (SMALLEST + "wheels: [numpy==2]", "wheels: must be a map of fields (requirement, sha256)"),
        (SMALLEST + "wheels: [{requirement: numpy, sha256: [ab]}]", "wheels: requirement: 'numpy' does not match"),
        (SMALLEST + "wheels: [{requirement: numpy==2, sha256: []}]", "numpy==2: sha256: must have a hash"),
        (SMALLEST + "wheels: [{requirement: numpy==2, sha256: [ab]}]", "wheels: numpy==2: sha256: 'ab' does not match"),
        (SMALLEST + "edits: [{path: /a, old: b, new: c}]", "edits: path: '/a' must be a path relative"),
        (SMALLEST + "edits: [{path: a, new: c}]", "edits: a: old: is missing"),
        (SMALLEST + "edits: [{path: a, old: '', new: c}]", "edits: a: old: must be the text that is replaced"),
        (SMALLEST + "edits: [{path: a, old: [b], new: c}]", "edits: a: old: must be text"),
        (SMALLEST + "printed: {../x: [true]}", "printed: '../x' must be a path relative"),
        (SMALLEST + "printed: {x: date}", "printed: 'date' must be a list of words"),
        (SMALLEST + "templates: [python]", "templates: must be a map of fields (name, interpreter, modules, warm)"),
        (SMALLEST + "templates: [{modules: [numpy]}]", "templates: name: is missing"),
        (SMALLEST + "templates: [{name: Data}]", "templates: name: 'Data' does not match"),
        (SMALLEST + "templates: [{name: data, module: [numpy]}]", "templates: data: unknown field: module"),
        (SMALLEST + "templates: [{name: data, modules: numpy}]", "templates: data: modules: must be a list"),
        (
            SMALLEST + "templates: [{name: data, modules: ['os; x']}]",
            "templates: data: modules: 'os; x' does not match",
        ),
        (
            SMALLEST + "templates: [{name: data, interpreter: python3}]",
            "templates: data: interpreter: 'python3' does not",
        ),
        (
            SMALLEST + "templates: [{name: data, interpreter: /a/../b}]",
            "templates: data: interpreter: '/a/../b' does not",
        ),
        (SMALLEST + "templates: [{name: data, warm: [x]}]", "templates: data: warm: must be text"),
        (SMALLEST + "templates: [{name: data}, {name: data}]", "templates: the name data stands twice"),
        (SMALLEST + "packages: [--help]", "the key packages stands twice"),
        ("name: tiny\nsuite: bookworm\npackages: [--help]", "packages: '--help' does not match"),
    ],
)
def test_a_recipe_that_cannot_be_meant_is_refused_with_file_and_field(text, message):
    with pytest.raises(BuildError, match=re.escape(message)) as caught:
        parse(text, "my/image.yaml")
    assert str(caught.value).startswith("my/image.yaml: ")


def test_a_template_is_pythons_own_and_empty_where_the_recipe_says_no_more():
    [template] = parse(SMALLEST + "templates: [{name: python}]", "image.yaml").templates
    assert template == Template(name="python", interpreter="/usr/bin/python3", modules=(), warm="")


def test_a_template_has_its_modules_in_their_order():
    text = "templates: [{name: data, interpreter: /opt/venv/bin/python3.12, modules: [pandas, a.b_c], warm: 'x = 1'}]"
    [template] = parse(SMALLEST + text, "image.yaml").templates
    assert (template.interpreter, template.modules) == ("/opt/venv/bin/python3.12", ("pandas", "a.b_c"))
    assert template.warm == "x = 1"


def test_a_missing_recipe_is_refused_by_its_path(tmp_path):
    with pytest.raises(BuildError, match=r"image\.yaml: cannot be read"):
        load(tmp_path / "image.yaml")


def test_the_digest_follows_the_meaning_and_the_architecture_alone():
    recipe = parse(SMALLEST, "a")
    assert recipe.digest("amd64") == parse("# a remark\n" + SMALLEST, "b").digest("amd64")
    assert recipe.digest("amd64") != recipe.digest("arm64")
    assert recipe.digest("amd64") != parse(SMALLEST + "without: [dpkg]", "a").digest("amd64")
    assert recipe.digest("amd64") != parse(SMALLEST + "templates: [{name: python}]", "a").digest("amd64")


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*/image.yaml")), ids=lambda path: path.parent.name)
def test_each_recipe_of_ours_is_valid_and_bears_the_name_of_its_directory(path):
    recipe = load(path)
    assert recipe.name == path.parent.name
    assert recipe.checks
