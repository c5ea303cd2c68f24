"""Unpacks Debian packages into a tree. Maintainer scripts never run: the recipe states what is needed of them."""

import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from .errors import BuildError
from .globs import Selection, merged
from .tree import Tree


def unpack(archive: Path, tree: Tree, selection: Selection) -> None:
    command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        if process.stdout is None or process.stderr is None:
            raise BuildError(f"{archive.name}: dpkg-deb gave no output")
        try:
            unpack_tar(process.stdout, tree, selection)
        except tarfile.TarError as error:
            process.kill()
            raise BuildError(f"{archive.name}: is damaged ({error}); delete {archive} and build again") from error
        except BuildError as error:
            process.kill()
            raise BuildError(f"{archive.name}: {error}") from error
        complaint = process.stderr.read().decode(errors="replace").strip()
    if process.returncode:
        raise BuildError(f"{archive.name}: dpkg-deb failed: {complaint}; delete {archive} and build again")


def unpack_tar(stream: IO[bytes], tree: Tree, selection: Selection) -> None:
    """`stream` is read to its end, once."""
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        _place_all(archive, archive, tree, selection)
    while stream.read(1 << 16):
        pass  # padding: dpkg-deb must not die of a closed pipe


def _place_all(members: Iterable[tarfile.TarInfo], archive: tarfile.TarFile, tree: Tree, selection: Selection) -> None:
    for member in members:
        path = merged(member.name)
        if path and path in selection:
            _place(member, path, archive, tree)


def _place(member: tarfile.TarInfo, path: str, archive: tarfile.TarFile, tree: Tree) -> None:
    """Devices and pipes are left out: a sandbox gets its own."""
    if member.isdir():
        tree.directory(path)
    elif member.issym():
        tree.link(path, member.linkname)
    elif member.islnk():
        tree.hard_link(path, merged(member.linkname))
    elif member.isfile() and (content := archive.extractfile(member)):
        tree.file(path, content, is_executable=bool(member.mode & 0o111))
