import io
import tarfile

import pytest

from sandbox_images.builder.debs import unpack_tar
from sandbox_images.builder.globs import Selection
from sandbox_images.builder.tree import Tree


def package(*members):
    """Each member: name, type, mode, link target or content."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, kind, mode, extra in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, mode
            if kind == tarfile.REGTYPE:
                info.size = len(extra)
                archive.addfile(info, io.BytesIO(extra))
            else:
                info.linkname = extra
                archive.addfile(info)
    stream.seek(0)
    return stream


@pytest.fixture
def tree(tmp_path):
    tree = Tree(tmp_path)
    tree.merge_usr()
    return tree


def test_a_package_lands_in_a_merged_usr_without_setuid_devices_and_what_is_excluded(tree):
    stream = package(
        ("./", tarfile.DIRTYPE, 0o700, ""),
        ("./lib", tarfile.SYMTYPE, 0o777, "usr/lib"),
        ("./bin/", tarfile.DIRTYPE, 0o755, ""),
        ("./bin/su", tarfile.REGTYPE, 0o4755, b"program"),
        ("./bin/sub", tarfile.LNKTYPE, 0o4755, "./bin/su"),
        ("./usr/bin/sh", tarfile.SYMTYPE, 0o777, "su"),
        ("./etc/secret", tarfile.REGTYPE, 0o600, b"text"),
        ("./dev/null", tarfile.CHRTYPE, 0o666, ""),
        ("./usr/share/doc/x/README", tarfile.REGTYPE, 0o644, b"text"),
    )
    unpack_tar(stream, tree, Selection(["usr/share/doc"], []))
    assert (tree.root / "usr/bin/su").stat().st_mode == 0o100755
    assert (tree.root / "usr/bin/sub").read_bytes() == b"program"
    assert (tree.root / "bin/sh").read_bytes() == b"program"
    assert (tree.root / "etc/secret").stat().st_mode == 0o100644
    assert not (tree.root / "dev").exists()
    assert not (tree.root / "usr/share").exists()


def test_a_package_that_plants_a_link_cannot_write_through_it_to_the_host(tree, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    stream = package(
        ("./opt", tarfile.SYMTYPE, 0o777, str(outside)),
        ("./opt/x", tarfile.REGTYPE, 0o644, b"text"),
    )
    unpack_tar(stream, tree, Selection([], []))
    assert not list(outside.iterdir())
