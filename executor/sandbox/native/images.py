"""Which file systems this host can offer: `host` (the machine's own programs), and images built into a directory."""

import hashlib
import json
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from executor.model.errors import Misconfigured
from executor.sandbox.native.identity import INNER_ID
from executor.sandbox.native.init import SEARCH_PATH
from executor.sandbox.native.plan import ImagePlan, Layer, TemplatePlan

HOST = "host"
_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_COPIED = ("etc/ld.so.cache", "etc/ld.so.conf", "etc/os-release", "etc/ssl/certs/ca-certificates.crt")
_INTERPRETERS = ("python3", "node")
_CPYTHON = re.compile(r"python3\.([0-9]+)")
_TEMPLATE_MINOR = 10
"""Of CPython 3, from which on it can be a template."""
_MADE = {
    "etc/passwd": f"sandbox:x:{INNER_ID}:{INNER_ID}::/workspace:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    "etc/group": f"sandbox:x:{INNER_ID}:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "etc/resolv.conf": "",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def host_image() -> ImagePlan:
    """The machine's own /usr, /bin and /lib read-only, a made /etc, and nothing else: no home, no /root, no state."""
    links, layers = {}, []
    for name in _TOP:
        path = Path("/", name)
        if path.is_symlink():
            links[name] = str(path.readlink())
        elif path.is_dir():
            layers.append(Layer(source=str(path), target=f"/{name}"))
    layers.append(Layer(source="/usr", target="/usr"))
    search_path = SEARCH_PATH
    for prefix in _interpreters_elsewhere(layers):
        layers.append(Layer(source=str(prefix), target=str(prefix)))
        search_path += f":{prefix}/bin"
    for link in _alternatives():
        links[f"etc/alternatives/{link.name}"] = str(link.readlink())
    files = _MADE | {
        name: Path("/", name).read_bytes().decode("latin-1") for name in _COPIED if Path("/", name).is_file()
    }
    image = ImagePlan(
        name=HOST,
        digest=_fingerprint(layers, files),
        layers=tuple(layers),
        directories=("etc", "run", "var/tmp"),
        links=links,
        files=files,
        environment={"PATH": search_path},
    )
    return replace(image, templates=_host_templates(image))


def _host_templates(image: ImagePlan) -> tuple[TemplatePlan, ...]:
    """By the name that `python3` is a link to, as in python3.11; a Python that does not say its version gets none."""
    found = _found(image, "python3")
    real = _followed(image, found) if found else None
    version = _CPYTHON.fullmatch(real.name) if real else None
    if not version or int(version[1]) < _TEMPLATE_MINOR:
        return ()
    return (TemplatePlan(name="python", interpreter=str(found)),)


def _interpreters_elsewhere(layers: list[Layer]) -> list[Path]:
    """Where the system has no such interpreter, the installation of the one that this user runs; of Python, ours."""
    prefixes: list[Path] = []
    for name in _INTERPRETERS:
        if shutil.which(name, path=SEARCH_PATH):
            continue
        found = Path(sys.base_prefix) if name == "python3" else _installation(shutil.which(name))
        if found and not any(found.is_relative_to(layer.source) for layer in layers):
            prefixes.append(found)
    return prefixes


def _installation(program: str | None) -> Path | None:
    """`…/bin/node` belongs to `…`, once links are followed."""
    real = Path(program).resolve() if program else None
    return real.parents[1] if real and real.parent.name == "bin" else None


def _alternatives() -> list[Path]:
    directory = Path("/etc/alternatives")
    return sorted(path for path in directory.iterdir() if path.is_symlink()) if directory.is_dir() else []


def _fingerprint(layers: list[Layer], files: dict[str, str]) -> str:
    """Changes when packages are installed or removed; not a digest of the content, which would take minutes to read."""
    facts: list[object] = [sorted(files.items())]
    for path in (*(layer.source for layer in layers), "/usr/bin", "/usr/lib", "/var/lib/dpkg/status"):
        if os.path.exists(path):  # noqa: PTH110
            status = os.stat(path)  # noqa: PTH116
            facts.append([path, status.st_dev, status.st_ino, status.st_mtime_ns])
    return "host:" + hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def built_images(directory: Path) -> list[ImagePlan]:
    """Each `<directory>/<name>/` with an image.json and a rootfs."""
    return [_built(path.parent) for path in sorted(directory.glob("*/image.json"))]


def _built(directory: Path) -> ImagePlan:
    description = directory / "image.json"
    try:
        values = json.loads(description.read_text())
        name, digest = values["name"], values["digest"]
        environment = dict(values.get("environment", {}))
        entries = list(values.get("templates", ()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Misconfigured(f"{description}: not the description of an image ({error!r}); build it again") from error
    if not (directory / "rootfs").is_dir() or name == HOST or "/" in name or ":" in name:
        raise Misconfigured(
            f"{directory}: an image needs a rootfs directory and a name that is its own; build it again"
        )
    layers = (Layer(source=str(directory / "rootfs"), target="/"),)
    templates = tuple(_template(description, entry) for entry in entries)
    if len({template.name for template in templates}) < len(templates):
        raise Misconfigured(f"{description}: templates: two have the same name; build the image again")
    return ImagePlan(name=name, digest=digest, layers=layers, environment=environment, templates=templates)


def _template(description: Path, entry: object) -> TemplatePlan:
    """Keys that a later version may add are passed over."""
    match {"modules": [], "warm": ""} | entry if isinstance(entry, dict) else entry:
        case {"name": str(name), "interpreter": str(interpreter), "modules": [*modules], "warm": str(warm)} if (
            interpreter.startswith("/") and all(isinstance(module, str) for module in modules)
        ):
            return TemplatePlan(name=name, interpreter=interpreter, modules=tuple(modules), warm=warm)
    raise Misconfigured(
        f"{description}: templates: {str(entry)[:100]!r} must have a name, the absolute path of an interpreter, "
        "a list of modules, and warm as text; build the image again"
    )


def find_program(image: ImagePlan, program: str) -> bool:
    """Whether a file of that name is in the image, on its search path."""
    return _found(image, program) is not None


def interpreters(image: ImagePlan) -> dict[str, str]:
    """The words that start the interpreter of a template -> what tells it from others, one text for one interpreter."""
    words = {"python3", "python", *(template.interpreter for template in image.templates)}
    found = {word: _found(image, word) for word in sorted(words)}
    return {word: _identity(image, path) for word, path in found.items() if path}


def _identity(image: ImagePlan, path: Path) -> str:
    """Its own file; with a virtual environment around the link to it, another one than without."""
    surroundings = [place for place in path.parents[:2] if _followed(image, place / "pyvenv.cfg")]
    return ":".join(map(str, [_followed(image, path), *surroundings]))


def _found(image: ImagePlan, program: str) -> Path | None:
    """As named; on the search path where it is no path itself."""
    search = image.environment.get("PATH", SEARCH_PATH).split(":")
    candidates = [program] if program.startswith("/") else [f"{place}/{program}" for place in search]
    return next((Path(path) for path in candidates if _followed(image, Path(path))), None)


def _followed(image: ImagePlan, path: Path, hops: int = 16) -> Path | None:
    """The file that it leads to, by links as they would be followed inside, by name alone."""
    if hops == 0:
        return None
    done = Path("/")
    for index, part in enumerate(path.parts[1:], start=2):
        done /= part
        target = _link(image, done)
        if target is not None:
            rest = Path(*path.parts[index:]) if index < len(path.parts) else Path()
            return _followed(image, Path(os.path.normpath(done.parent / target / rest)), hops - 1)
    is_there = str(done).lstrip("/") in image.files or any(source.exists() for source in _sources(image, done))
    return done if is_there else None


def _link(image: ImagePlan, path: Path) -> str | None:
    if target := image.links.get(str(path).lstrip("/")):
        return target
    for source in _sources(image, path):
        if source.is_symlink():
            return os.readlink(source)  # noqa: PTH115
    return None


def _sources(image: ImagePlan, path: Path) -> list[Path]:
    return [
        Path(layer.source, path.relative_to(layer.target))
        for layer in image.layers
        if path.is_relative_to(layer.target)
    ]
