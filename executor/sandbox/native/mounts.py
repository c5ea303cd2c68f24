"""The file systems: the launcher's own small root, and the root of each sandbox. Imported by the launcher: builtin modules
and ctypes only.

The launcher lives in a mount namespace of its own whose root (the stage) holds the images, five device nodes and /proc,
and nothing else of the host. A sandbox's mount namespace is a copy of that, so it never sees the host's mounts at all.
"""

import os

from executor.sandbox.native.identity import INNER_ID
from executor.sandbox.native.syscalls import (
    MNT_DETACH,
    MOUNT_ATTR_NOEXEC,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    make_read_only,
    mount,
    pivot_root,
    unmount,
)

TYPE_CHECKING = False  # `typing` would cost each sandbox memory
if TYPE_CHECKING:
    from executor.sandbox.native.plan import ImagePlan, LauncherPlan, SandboxPlan

DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
"""Name -> minor number; the major one is 1."""
DEVICES_ROOT = "/devices"
"""In the stage: nodes made for each sandbox."""
HOST_DEVICES = "/dev"
"""In the stage: the host's own nodes."""
DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
MOUNT_POINTS = ("dev", "proc", "tmp", "workspace")
MASKED_FILES = (
    "config.gz",
    "interrupts",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "latency_stats",
    "modules",
    "sched_debug",
    "slabinfo",
    "softirqs",
    "sysrq-trigger",
    "timer_list",
    "version_signature",
    "vmallocinfo",
)
"""Of /proc: what tells about the kernel or about other users of the host."""
MASKED_DIRECTORIES = ("acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "scsi", "tty")
SANDBOX_ROOT = "/root"
"""In the stage: where a sandbox puts its root together, in its own mount namespace."""
EMPTY = "/empty"
_CHARACTER_DEVICE = 0o020000


def make_private() -> None:
    """What is mounted from here on is not seen outside."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)


def build_stage(plan: "LauncherPlan") -> None:
    """Make the stage and make it this process's root. Called once, in the launcher's own mount namespace."""
    make_private()
    stage = plan.stage
    mount("executor-stage", stage, "tmpfs", MS_NOSUID, "mode=755,size=64m")
    for name in ("dev", "devices", "proc", "root", "empty", "images"):
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


def make_devices(uid: int) -> str:
    """Where the /dev of the sandboxes of `uid` lies in the stage. Where this process may make nodes they are that uid's
    own, so that locks and watches on them are too; otherwise they are the host's, and a sandbox makes its own directory.
    """
    directory = f"{DEVICES_ROOT}/{uid}"
    try:
        os.mkdir(directory, 0o755)  # noqa: PTH102 - no pathlib here
        for name, minor in DEVICES.items():
            os.mknod(f"{directory}/{name}", _CHARACTER_DEVICE | 0o666, os.makedev(1, minor))
            os.chmod(f"{directory}/{name}", 0o666)  # noqa: PTH101, S103 - whatever the umask
    except PermissionError:
        return HOST_DEVICES
    except FileExistsError:
        return directory
    _link_devices(directory)
    return directory


def _link_devices(directory: str) -> None:
    for name, target in DEVICE_LINKS.items():
        os.symlink(target, f"{directory}/{name}")  # noqa: PTH211 - no pathlib here
    _make_directory(f"{directory}/shm")


def _stage_devices(stage: str) -> None:
    own, hosts = f"{stage}{DEVICES_ROOT}", f"{stage}{HOST_DEVICES}"
    mount("executor-devices", own, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=16m")
    mount("executor-dev", hosts, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k")
    for name in DEVICES:
        _touch(f"{hosts}/{name}")
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
        _touch(f"{skeleton}/{name}", content.encode("latin-1"))
    for index, layer in enumerate(image.layers):
        place = f"{directory}/{index}"
        _make_directory(place)
        mount(layer.source, place, None, MS_BIND | MS_REC)
        make_read_only(place)


def _make_directory(path: str) -> None:
    os.makedirs(path, 0o755, exist_ok=True)  # noqa: PTH103 - no pathlib here


def _touch(path: str, content: bytes = b"", mode: int = 0o644) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        while content:
            content = content[os.write(fd, content) :]
    finally:
        os.close(fd)


def mount_root(image: "ImagePlan") -> None:
    """A per-sandbox read-only view of the image: locks and watches on its files are not shared with anybody."""
    base = f"/images/{image.name}"
    at_root = [f"{base}/{i}" for i, layer in enumerate(image.layers) if layer.target == "/"]
    _overlay((*at_root, f"{base}/skeleton"), SANDBOX_ROOT)
    for index, layer in enumerate(image.layers):
        if layer.target != "/":
            _overlay((f"{base}/{index}",), SANDBOX_ROOT + layer.target)


def _overlay(lower: tuple[str, ...], target: str) -> None:
    directories = ":".join((*lower, EMPTY))  # without an upper one, the kernel asks for two
    mount("image", target, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, f"lowerdir={directories}")


def mount_devices(nodes: str, owner: int = INNER_ID) -> None:
    """A /dev of its own, read-only: five nodes, and the usual links."""
    dev = f"{SANDBOX_ROOT}/dev"
    if nodes != HOST_DEVICES:
        mount(nodes, dev, None, MS_BIND)
    else:
        mount("dev", dev, "tmpfs", MS_NOSUID | MS_NOEXEC, f"mode=755,size=64k,uid={owner},gid={owner}")
        for name in DEVICES:
            _touch(f"{dev}/{name}")
            mount(f"{nodes}/{name}", f"{dev}/{name}", None, MS_BIND)
        _link_devices(dev)
    make_read_only(dev, attributes=MOUNT_ATTR_NOEXEC)


def mount_private(plan: "SandboxPlan", owner: int = INNER_ID) -> None:
    """The three places that the program may write to; their pages count as its memory."""
    for target, mode, size, inodes in (
        ("workspace", "700", plan.workspace_bytes, plan.workspace_inodes),
        ("tmp", "1777", plan.tmp_bytes, plan.tmp_inodes),
        ("dev/shm", "1777", plan.tmp_bytes, plan.tmp_inodes),
    ):
        data = f"size={size},nr_inodes={inodes},mode={mode},uid={owner},gid={owner}"
        mount(target, f"{SANDBOX_ROOT}/{target}", "tmpfs", MS_NOSUID | MS_NODEV, data)


def what_to_mask() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files and the directories of this kernel's /proc that a sandbox is not to see."""
    names = set(os.listdir("/proc"))  # noqa: PTH208
    return (
        tuple(name for name in MASKED_FILES if name in names),
        tuple(name for name in MASKED_DIRECTORIES if name in names),
    )


def mount_proc(masked: tuple[tuple[str, ...], tuple[str, ...]], owner: int = INNER_ID) -> None:
    """Of the sandbox's own pid namespace, read-only as a whole, without what tells about the host."""
    proc = f"{SANDBOX_ROOT}/proc"
    mount("proc", proc, "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=invisible")
    nothing, empty = _masks(owner)
    for name in masked[0]:
        mount(nothing, f"{proc}/{name}", None, MS_BIND)
    for name in masked[1]:
        mount(empty, f"{proc}/{name}", None, MS_BIND)


def _masks(owner: int) -> tuple[str, str]:
    """An empty file and an empty directory of this sandbox alone, on a read-only mount that the root will not show."""
    mount("masks", EMPTY, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, f"mode=755,size=4k,uid={owner},gid={owner}")
    nothing, empty = f"{EMPTY}/nothing", f"{EMPTY}/empty"
    _touch(nothing, mode=0o666)
    os.mkdir(empty)  # noqa: PTH102
    make_read_only(EMPTY)
    return nothing, empty


def enter_root() -> None:
    os.chdir(SANDBOX_ROOT)
    pivot_root(".", ".")
    unmount(".", MNT_DETACH)
    os.chdir("/workspace")
