"""The launcher's own small root: it lives in a mount namespace whose root (the stage) holds the images, device nodes
and /proc, and nothing else of the host. A sandbox's mount namespace is a copy of that, so it never sees the host's
mounts at all. Imported by the launcher: builtin modules and ctypes only.
"""

import os

from executor.sandbox.native.syscalls import (
    MNT_DETACH,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    make_read_only,
    mount,
    pivot_root,
    unmount,
)

TYPE_CHECKING = False  # `typing` would cost each sandbox memory
if TYPE_CHECKING:
    from executor.sandbox.native.plan import ImagePlan, LauncherPlan

DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
"""Name -> minor number; the major one is 1."""
HOST_DEVICES = "/dev"
"""In the stage: the host's own nodes."""
DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
MOUNT_POINTS = ("dev", "proc", "tmp", "workspace")
OWN = "/own"
"""In the stage, read-only: a directory for each host id, which has what its sandboxes are to share with no other: locks
and watches hold on to these files.
"""
_WRITABLE = "/making"
"""The same, where this process writes to it."""
_CHARACTER_DEVICE = 0o020000


def make_private() -> None:
    """What is mounted from here on is not seen outside."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)


def build(plan: "LauncherPlan") -> None:
    """Make the stage and make it this process's root. Called once, in the launcher's own mount namespace."""
    make_private()
    stage = plan.stage
    mount("executor-stage", stage, "tmpfs", MS_NOSUID, "mode=755,size=64m")
    for name in ("dev", "own", "making", "proc", "root", "empty", "images"):
        _make_directory(f"{stage}/{name}")
    mount("/proc", f"{stage}/proc", None, MS_BIND | MS_REC)
    _stage_devices(stage)
    for image in plan.images:
        _stage_image(image, f"{stage}/images/{image.name}")
    os.chdir(stage)
    pivot_root(".", ".")
    unmount(".", MNT_DETACH)
    os.chdir("/")
    make_read_only("/", recursive=False)


def mount_own_proc() -> None:
    """Over the host's, for a process with a pid namespace of its own."""
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def make_own(uid: int) -> str:
    """The directory of a host id: `dev`, an empty file `nothing` and an empty directory `empty`. It is made once and
    kept. An empty text for an ordinary user, who may not make nodes: a sandbox then makes all that for itself.
    """
    made = f"{_WRITABLE}/{uid}"
    try:
        os.mkdir(made, 0o755)  # noqa: PTH102 - no pathlib here
    except FileExistsError:
        return f"{OWN}/{uid}"
    try:
        os.mkdir(f"{made}/dev", 0o755)  # noqa: PTH102
        for name, minor in DEVICES.items():
            os.mknod(f"{made}/dev/{name}", _CHARACTER_DEVICE | 0o666, os.makedev(1, minor))
            os.chmod(f"{made}/dev/{name}", 0o666)  # noqa: PTH101, S103 - whatever the umask
    except PermissionError:
        os.rmdir(f"{made}/dev")  # noqa: PTH106
        os.rmdir(made)  # noqa: PTH106
        return ""
    for name, target in DEVICE_LINKS.items():
        os.symlink(target, f"{made}/dev/{name}")  # noqa: PTH211
    os.mkdir(f"{made}/dev/shm", 0o755)  # noqa: PTH102, S108 - a place to mount on
    os.mkdir(f"{made}/empty", 0o755)  # noqa: PTH102
    write(f"{made}/nothing")
    return f"{OWN}/{uid}"


def _stage_devices(stage: str) -> None:
    mount(
        "executor-own", f"{stage}{_WRITABLE}", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=0,nr_inodes=0"
    )  # unbounded: what is free would tell how many there are
    mount(f"{stage}{_WRITABLE}", f"{stage}{OWN}", None, MS_BIND)
    mount("none", f"{stage}{OWN}", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC)
    hosts = f"{stage}{HOST_DEVICES}"
    mount("executor-dev", hosts, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k")
    for name in DEVICES:
        write(f"{hosts}/{name}")
        mount(f"/dev/{name}", f"{hosts}/{name}", None, MS_BIND)


def _stage_image(image: "ImagePlan", directory: str) -> None:
    skeleton = f"{directory}/skeleton"
    for name in (*MOUNT_POINTS, *image.directories, *(layer.target.strip("/") for layer in image.layers)):
        _make_directory(f"{skeleton}/{name}")
    for name, target in image.links.items():
        _make_directory(os.path.dirname(f"{skeleton}/{name}"))  # noqa: PTH120
        os.symlink(target, f"{skeleton}/{name}")  # noqa: PTH211
    for name, content in image.files.items():
        _make_directory(os.path.dirname(f"{skeleton}/{name}"))  # noqa: PTH120
        write(f"{skeleton}/{name}", content.encode("latin-1"))
    for index, layer in enumerate(image.layers):
        place = f"{directory}/{index}"
        _make_directory(place)
        mount(layer.source, place, None, MS_BIND | MS_REC)
        make_read_only(place)


def _make_directory(path: str) -> None:
    os.makedirs(path, 0o755, exist_ok=True)  # noqa: PTH103 - no pathlib here


def write(path: str, content: bytes = b"", mode: int = 0o644) -> None:
    """A new file with this content."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        while content:
            content = content[os.write(fd, content) :]
    finally:
        os.close(fd)
