"""The root of a sandbox, as a recipe that the launcher writes once for many, and each sandbox follows in its own mount
namespace: there it is a loop over ready-made words, because what a new process touches of its memory it pays for.
Imported by the launcher: builtin modules and ctypes only.
"""

import os

from executor.sandbox.native.identity import INNER_ID
from executor.sandbox.native.stage import DEVICE_LINKS, DEVICES, HOST_DEVICES, write
from executor.sandbox.native.syscalls import (
    MNT_DETACH,
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NOEXEC,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    make_read_only,
    mount_words,
    pivot_root,
    unmount,
)

TYPE_CHECKING = False  # `typing` would cost each sandbox memory
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from executor.sandbox.native.plan import ImagePlan, SandboxPlan

    Step = tuple[Callable[..., None], *tuple[Any, ...]]
    Recipe = tuple[Step, ...]

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


def what_to_mask() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files and the directories of this kernel's /proc that a sandbox is not to see."""
    names = set(os.listdir("/proc"))  # noqa: PTH208 - no pathlib here
    return (
        tuple(name for name in MASKED_FILES if name in names),
        tuple(name for name in MASKED_DIRECTORIES if name in names),
    )


def recipe(
    image: "ImagePlan",
    plan: "SandboxPlan",
    own: str,
    masked: tuple[tuple[str, ...], tuple[str, ...]],
    owner: int = INNER_ID,
) -> "Recipe":
    """`own`: of `stage.make_own`, for the sandbox's host id. `owner`: the inner id that owns what is writable."""
    return (
        *_image(image),
        *(_own_devices(own) if own else _devices(owner)),
        *_private(plan, owner),
        *_proc(),
        *(_masks(masked, own) if own else (*_make_masks(owner), *_masks(masked, EMPTY))),
    )


def follow(steps: "Recipe") -> None:
    """In the sandbox. Raises OSError."""
    for step in steps:
        step[0](*step[1:])


def enter_root() -> None:
    os.chdir(SANDBOX_ROOT)
    pivot_root(".", ".")
    unmount(".", MNT_DETACH)
    os.chdir("/workspace")


def leave_root() -> None:
    """What was put together, but not entered."""
    unmount(SANDBOX_ROOT, MNT_DETACH)
    try:
        unmount(EMPTY, MNT_DETACH)
    except OSError:
        return  # nothing was made there


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> "Step":
    return (
        mount_words,
        source.encode(),
        os.fsencode(target),
        kind.encode() if kind else None,
        flags,
        data.encode() if data else None,
    )


def _image(image: "ImagePlan") -> "Iterator[Step]":
    """A read-only view of the image that is this sandbox's: locks and watches on its files are not shared with
    anybody.
    """
    base = f"/images/{image.name}"
    at_root = [f"{base}/{i}" for i, layer in enumerate(image.layers) if layer.target == "/"]
    yield _overlay((*at_root, f"{base}/skeleton"), SANDBOX_ROOT)
    for index, layer in enumerate(image.layers):
        if layer.target != "/":
            yield _overlay((f"{base}/{index}",), SANDBOX_ROOT + layer.target)


def _overlay(lower: tuple[str, ...], target: str) -> "Step":
    directories = ":".join((*lower, EMPTY))  # without an upper one, the kernel asks for two
    return _mount("image", target, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, f"lowerdir={directories}")


def _own_devices(own: str) -> "Iterator[Step]":
    """Five nodes, and the usual links, read-only as they lie there."""
    yield _mount(f"{own}/dev", f"{SANDBOX_ROOT}/dev", None, MS_BIND)


def _devices(owner: int) -> "Iterator[Step]":
    """The same, made here, of the host's nodes."""
    dev = f"{SANDBOX_ROOT}/dev"
    yield _mount("dev", dev, "tmpfs", MS_NOSUID | MS_NOEXEC, f"mode=755,size=64k,uid={owner},gid={owner}")
    for name in DEVICES:
        yield write, f"{dev}/{name}"
        yield _mount(f"{HOST_DEVICES}/{name}", f"{dev}/{name}", None, MS_BIND)
    for name, target in DEVICE_LINKS.items():
        yield os.symlink, target, f"{dev}/{name}"
    yield os.mkdir, f"{dev}/shm", 0o755
    yield make_read_only, dev, MOUNT_ATTR_NOEXEC


def _private(plan: "SandboxPlan", owner: int) -> "Iterator[Step]":
    """The three places that the program may write to; their pages count as its memory."""
    for target, mode, size, inodes in (
        ("workspace", "700", plan.workspace_bytes, plan.workspace_inodes),
        ("tmp", "1777", plan.tmp_bytes, plan.tmp_inodes),
        ("dev/shm", "1777", plan.tmp_bytes, plan.tmp_inodes),
    ):
        data = f"size={size},nr_inodes={inodes},mode={mode},uid={owner},gid={owner}"
        yield _mount(target, f"{SANDBOX_ROOT}/{target}", "tmpfs", MS_NOSUID | MS_NODEV, data)


def _proc() -> "Iterator[Step]":
    """Of the sandbox's own pid namespace, read-only as a whole, without what tells about the host."""
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    yield _mount("proc", f"{SANDBOX_ROOT}/proc", "proc", flags, "hidepid=invisible")


def _make_masks(owner: int) -> "Iterator[Step]":
    """On a read-only mount that the root will not show."""
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    yield _mount("masks", EMPTY, "tmpfs", flags, f"mode=755,size=4k,uid={owner},gid={owner}")
    yield write, f"{EMPTY}/nothing"
    yield os.mkdir, f"{EMPTY}/empty", 0o755
    yield make_read_only, EMPTY, MOUNT_ATTR_NODEV


def _masks(masked: tuple[tuple[str, ...], tuple[str, ...]], at: str) -> "Iterator[Step]":
    for names, mask in zip(masked, ("nothing", "empty"), strict=True):
        for name in names:
            yield _mount(f"{at}/{mask}", f"{SANDBOX_ROOT}/proc/{name}", None, MS_BIND)
