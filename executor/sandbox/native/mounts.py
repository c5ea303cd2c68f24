"""The file systems: the launcher's own small root, and the root of each sandbox. Imported by the launcher: stdlib only.

The launcher lives in a mount namespace of its own whose root (the stage) holds the images, five device nodes and /proc,
and nothing else of the host. A sandbox's mount namespace is a copy of that, so it never sees the host's mounts at all.
"""

import contextlib
import os
import stat
from pathlib import Path

from executor.sandbox.native.identity import INNER_ID
from executor.sandbox.native.plan import ImagePlan, LauncherPlan, SandboxPlan
from executor.sandbox.native.syscalls import (
    MNT_DETACH,
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
_OWNER = f"uid={INNER_ID},gid={INNER_ID}"


def make_private() -> None:
    """What is mounted from here on is not seen outside."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)


def build_stage(plan: LauncherPlan) -> None:
    """Make the stage and make it this process's root. Called once, in the launcher's own mount namespace."""
    make_private()
    stage = plan.stage
    mount("executor-stage", stage, "tmpfs", MS_NOSUID, "mode=755,size=64m")
    for name in ("dev", "devices", "proc", "root", "empty", "images"):
        Path(stage, name).mkdir()
    mount("/proc", f"{stage}/proc", None, MS_BIND | MS_REC)
    _stage_devices(stage)
    for image in plan.images:
        _stage_image(image, Path(stage, "images", image.name))
    os.chdir(stage)
    pivot_root(".", ".")
    unmount(".", MNT_DETACH)
    os.chdir("/")
    make_read_only("/", recursive=False)


def make_devices(sandbox_id: int) -> str:
    """Where the device nodes of a sandbox lie in the stage. Where this process may make nodes they are its own, so that
    locks and watches on them are too; otherwise they are the host's.
    """
    directory = f"{DEVICES_ROOT}/{sandbox_id}"
    try:
        os.mkdir(directory, 0o755)  # noqa: PTH102 - on the path to each sandbox
        for name, minor in DEVICES.items():
            os.mknod(f"{directory}/{name}", stat.S_IFCHR | 0o666, os.makedev(1, minor))
            os.chmod(f"{directory}/{name}", 0o666)  # noqa: PTH101, S103 - whatever the umask
    except PermissionError:
        return HOST_DEVICES
    return directory


def remove_devices(sandbox_id: int) -> None:
    directory = f"{DEVICES_ROOT}/{sandbox_id}"
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(directory):  # noqa: PTH208
            os.unlink(f"{directory}/{name}")  # noqa: PTH108
        os.rmdir(directory)  # noqa: PTH106


def _stage_devices(stage: str) -> None:
    own, hosts = f"{stage}{DEVICES_ROOT}", f"{stage}{HOST_DEVICES}"
    mount("executor-devices", own, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=4m")
    mount("executor-dev", hosts, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k")
    for name in DEVICES:
        node = Path(hosts, name)
        node.touch()
        mount(f"/dev/{name}", str(node), None, MS_BIND)


def _stage_image(image: ImagePlan, directory: Path) -> None:
    skeleton = directory / "skeleton"
    skeleton.mkdir(parents=True)
    for name in (*MOUNT_POINTS, *image.directories, *(layer.target.strip("/") for layer in image.layers)):
        (skeleton / name).mkdir(parents=True, exist_ok=True)
    for name, target in image.links.items():
        (skeleton / name).parent.mkdir(parents=True, exist_ok=True)
        (skeleton / name).symlink_to(target)
    for name, content in image.files.items():
        (skeleton / name).parent.mkdir(parents=True, exist_ok=True)
        (skeleton / name).write_bytes(content.encode("latin-1"))
    for index, layer in enumerate(image.layers):
        place = directory / str(index)
        place.mkdir()
        mount(layer.source, str(place), None, MS_BIND | MS_REC)
        make_read_only(str(place))


def mount_root(image: ImagePlan) -> None:
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


def mount_devices(nodes: str) -> None:
    """A /dev of its own, read-only: five nodes, and the usual links."""
    dev = f"{SANDBOX_ROOT}/dev"
    mount("dev", dev, "tmpfs", MS_NOSUID | MS_NOEXEC, f"mode=755,size=64k,{_OWNER}")
    for name in DEVICES:
        Path(dev, name).touch()
        mount(f"{nodes}/{name}", f"{dev}/{name}", None, MS_BIND)
    for name, target in DEVICE_LINKS.items():
        os.symlink(target, f"{dev}/{name}")  # noqa: PTH211 - on the path to each sandbox
    os.mkdir(f"{dev}/shm")  # noqa: PTH102
    make_read_only(dev, no_devices=False)


def mount_private(plan: SandboxPlan) -> None:
    """The three places that the program may write to; their pages count as its memory."""
    for target, mode, size, inodes in (
        ("workspace", "700", plan.workspace_bytes, plan.workspace_inodes),
        ("tmp", "1777", plan.tmp_bytes, plan.tmp_inodes),
        ("dev/shm", "1777", plan.tmp_bytes, plan.tmp_inodes),
    ):
        data = f"size={size},nr_inodes={inodes},mode={mode},{_OWNER}"
        mount(target, f"{SANDBOX_ROOT}/{target}", "tmpfs", MS_NOSUID | MS_NODEV, data)


def mount_proc() -> None:
    """Of the sandbox's own pid namespace, read-only as a whole, without what tells about the host."""
    proc = f"{SANDBOX_ROOT}/proc"
    mount("proc", proc, "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=invisible")
    nothing, empty = _masks()
    for name in MASKED_FILES:
        if os.path.exists(f"{proc}/{name}"):  # noqa: PTH110 - one stat, on the path to each sandbox
            mount(nothing, f"{proc}/{name}", None, MS_BIND)
    for name in MASKED_DIRECTORIES:
        if os.path.isdir(f"{proc}/{name}"):  # noqa: PTH112 - one stat, on the path to each sandbox
            mount(empty, f"{proc}/{name}", None, MS_BIND)


def _masks() -> tuple[str, str]:
    """An empty file and an empty directory of this sandbox alone, on a read-only mount that the root will not show."""
    mount("masks", EMPTY, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, f"mode=755,size=4k,{_OWNER}")
    nothing, empty = f"{EMPTY}/nothing", f"{EMPTY}/empty"
    Path(nothing).touch(0o666)
    os.mkdir(empty)  # noqa: PTH102 - on the path to each sandbox
    make_read_only(EMPTY)
    return nothing, empty


def enter_root() -> None:
    os.chdir(SANDBOX_ROOT)
    pivot_root(".", ".")
    unmount(".", MNT_DETACH)
    os.chdir("/workspace")
