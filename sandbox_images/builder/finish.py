"""What the recipe states beside packages: edits, directories, files, links and bundles. Stands for the maintainer
scripts.
"""

import io
from pathlib import Path

from .errors import BuildError
from .globs import MERGED
from .recipe import Edit, Recipe
from .tree import Tree

MOUNT_POINTS = ("proc", "dev", "dev/shm", "tmp", "workspace", "run")
"""A sandbox mounts over these; its root is read-only, so that they must exist."""


def finish(recipe: Recipe, tree: Tree) -> None:
    for path in (*MOUNT_POINTS, *recipe.directories):
        tree.directory(path)
    for edit in recipe.edits:
        _edit(tree, edit)
    for path, text in recipe.files.items():
        tree.file(path, io.BytesIO(text.encode()), is_executable=text.startswith("#!"))
    for path, target in recipe.links.items():
        _link(tree, path, target)
    for path, glob in recipe.bundles.items():
        tree.file(path, io.BytesIO(_concatenated(tree.root, path, glob)), is_executable=False)


def _edit(tree: Tree, edit: Edit) -> None:
    """A text that is not there, or there twice, is another version of the file than the recipe was written for."""
    place = tree.place(edit.path)
    if place.is_symlink() or not place.is_file():
        raise BuildError(f"edits: {edit.path}: no such file in the image; is its package missing or excluded?")
    content, old = place.read_bytes(), edit.old.encode()
    if (count := content.count(old)) != 1:
        raise BuildError(f"edits: {edit.path}: `old` stands there {count} times, not once; compare it with the file")
    is_executable = bool(place.stat().st_mode & 0o111)
    tree.file(edit.path, io.BytesIO(content.replace(old, edit.new.encode())), is_executable=is_executable)


def _link(tree: Tree, path: str, target: str) -> None:
    """A link that leads nowhere is a mistake in the recipe, except into what only a running sandbox has."""
    tree.link(path, target)
    base = "" if target.startswith("/") else f"{path.rpartition('/')[0]}/"
    goal = _normal(f"{base}{target}")
    if goal.partition("/")[0] in MOUNT_POINTS:
        return
    place = tree.place(goal)
    if not (place.exists() or place.is_symlink()):
        raise BuildError(f"links: {path}: {target} is not in the image; is its package missing or excluded?")


def _normal(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _concatenated(root: Path, path: str, glob: str) -> bytes:
    """In the order of their names."""
    top, _, rest = glob.partition("/")
    pattern = f"usr/{top}/{rest}" if top in MERGED else glob
    found = sorted(place for place in root.glob(pattern) if place.is_file() and not place.is_symlink())
    if not found:
        raise BuildError(f"bundles: {path}: no file matches {glob}")
    return b"".join(place.read_bytes().rstrip(b"\n") + b"\n" for place in found)
