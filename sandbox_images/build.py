"""Builds sandbox images: python sandbox_images/build.py [NAME...] [--images-dir DIR] [--force] [--verify].

The order of a build stands in `build`; every step lives in `builder/`. Needs Python's standard library, PyYAML, and
apt-get, dpkg-deb and pip on the host; no container registry, no root.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from builder import apt, debs, finish, places, runtime, store, wheels
from builder.digest import digest, size_bytes
from builder.errors import BuildError
from builder.globs import Selection
from builder.recipe import Recipe, load
from builder.tree import Tree

RECIPES = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    images: Path
    cache: Path


def build(recipe: Recipe, where: Places, *, force: bool) -> None:
    started = time.monotonic()
    architecture = apt.architecture()
    built_from = recipe.digest(architecture)
    present = store.metadata(where.images / recipe.name)
    if present and present.get("built_from") == built_from and not force:
        print(f"{recipe.name}: up to date, {present.get('digest')} ({where.images / recipe.name})")
        return
    with (
        store.locked(where.cache, "set XDG_CACHE_HOME"),
        store.locked(where.images, "choose another by --images-dir"),
        store.staged(where.images, recipe.name) as stage,
    ):
        root = stage / "rootfs"
        packages = fill(recipe, architecture, where.cache, root)
        with step("compile, link, check"):
            settle(recipe, root)
        with step("digest"):
            found = digest(root)
        image = {
            "name": recipe.name,
            "digest": found,
            "suite": recipe.suite,
            "architecture": architecture,
            "packages": [{"name": p.name, "version": p.version, "sha256": p.sha256} for p in packages],
            "environment": dict(recipe.environment),
            "templates": [asdict(template) for template in recipe.templates],
            "built_from": built_from,
        }
        (stage / "image.json").write_text(json.dumps(image, indent=2) + "\n", encoding="utf-8")
        (stage / "image.json").chmod(0o644)
        size_mb = size_bytes(root) / 1e6
    print(
        f"{recipe.name}: {found}, {size_mb:.0f} MB, {time.monotonic() - started:.0f} s ({where.images / recipe.name})"
    )


def fill(recipe: Recipe, architecture: str, cache: Path, root: Path) -> list[apt.Package]:
    """Everything that is downloaded."""
    source = apt.PrivateApt(cache, recipe.suite)
    with step("download"):
        source.prepare()
        resolved = source.resolve(recipe.packages)
        archives = source.download(recipe.packages, resolved)
        chosen = wheels.fetch(recipe.wheels, recipe.python, architecture, cache / "wheels")
    used = [(p, archive) for p, archive in zip(resolved, archives, strict=True) if p.name not in recipe.without]
    with step(f"unpack {len(used)} packages, {len(chosen)} wheels"):
        root.mkdir(mode=0o755)
        tree = Tree(root)
        tree.merge_usr()
        selection = Selection(recipe.exclude, recipe.keep)
        for _, archive in used:
            debs.unpack(archive, tree, selection)
        for wheel in chosen:
            wheels.unpack(wheel, recipe.python, tree, selection)
        finish.finish(recipe, tree)
    return [package for package, _ in used] + [wheels.described(wheel) for wheel in chosen]


def settle(recipe: Recipe, root: Path) -> None:
    """What the image's own programs do to it."""
    if recipe.bytecode and (refused := runtime.compile_python(root, recipe)):
        print(f" (note: some modules were not compiled: {refused})", end="")
    prefix = runtime.private_mounts()
    if prefix is None:
        print(" (note: no namespaces for this user, so no chroot: no ld.so.cache, no printed files, no checks)", end="")
        return
    runtime.cache_libraries(root, prefix)
    runtime.write_printed(root, recipe, prefix)
    runtime.check(root, recipe, prefix)


def verify(recipe: Recipe, where: Places) -> None:
    image = where.images / recipe.name
    present = store.metadata(image)
    if not present:
        raise BuildError(f"{image}: there is no such image; build it first")
    found = digest(image / "rootfs")
    if found != present.get("digest"):
        raise BuildError(f"{image}: was changed: its digest is {found}, image.json says {present.get('digest')}")
    print(f"{recipe.name}: verified, {found}")


@contextmanager
def step(title: str) -> Iterator[None]:
    started = time.monotonic()
    print(f"  {title}", end="", flush=True)
    try:
        yield
    finally:
        print(f": {time.monotonic() - started:.1f} s", flush=True)


def recipe_path(name: str) -> Path:
    """A name is one of ours; anything with a slash is a directory of the caller's."""
    directory = Path(name) if "/" in name else RECIPES / name
    path = directory / "image.yaml"
    if not path.is_file():
        have = ", ".join(sorted(found.parent.name for found in RECIPES.glob("*/image.yaml")))
        raise BuildError(f"{name}: there is no {path}; the images are: {have}, or give a directory, as in ./my-image")
    return path


def main(arguments: Sequence[str]) -> int:
    is_root = os.geteuid() == 0
    parser = argparse.ArgumentParser(
        prog="build.py", description="Builds sandbox images from Debian packages and wheels."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="an image of ours or a directory with image.yaml (default: all)"
    )
    parser.add_argument("--images-dir", type=Path, default=places.images_dir(os.environ, is_root=is_root))
    parser.add_argument("--force", action="store_true", help="build even where the image is up to date")
    parser.add_argument("--verify", action="store_true", help="build nothing; compare each image with its digest")
    options = parser.parse_args(arguments)
    where = Places(images=options.images_dir.absolute(), cache=places.cache_dir(os.environ, is_root=is_root))
    names = options.names or sorted(path.parent.name for path in RECIPES.glob("*/image.yaml"))
    os.umask(0o022)
    try:
        for recipe in [load(recipe_path(name)) for name in names]:
            if options.verify:
                verify(recipe, where)
            else:
                build(recipe, where, force=options.force)
    except (BuildError, OSError) as error:  # OSError is the host's: a full disk, a program that may not be run
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
