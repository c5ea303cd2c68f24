"""Where on cgroup v2 a group may be made for sandboxes, and what must happen to its parent first.

On v2, processes and sub-groups that have controllers exclude each other, except in the root of the host. So in a group
that was given to us, all processes (we, the shell that started us, another server) move into a leaf. The last server
to go moves back who is there. Several servers share one group without a lock: who sees that another one has undone a
step takes it again. Imported by the launcher: stdlib only.
"""

import contextlib
import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LEAF = "executor-server"
ATTEMPTS = 20
"""Each one is undone only by a process that is born, or a server that starts or stops, in the same instant."""
_UNITS = (".service", ".scope", ".slice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A group made for sandboxes, or the attempt at it."""

    base: Path | None
    refused: dict[str, str]
    """Controllers that groups in `base` do not have, with the reason."""


def make_place(point: Path, here: Path | None, name: str, wanted: tuple[str, ...]) -> Place:
    """A group `name` with all of `wanted`, or else with most. `here` is the group of this process below `point`."""
    places = []
    for parent in candidates(point, here):
        places.append(_place_in(parent, name, wanted))
        if not places[-1].refused:
            break
    nowhere = Place(base=None, refused=dict.fromkeys(wanted, _not_given(point, here)))
    best = min(places, key=lambda place: len(place.refused), default=nowhere)
    for place in places:
        if place.base and place is not best:
            remove_place(place.base)
    return best


def remove_place(base: Path) -> None:
    """Raises OSError where something in it is still alive; nothing happens where it is gone already."""
    with contextlib.suppress(FileNotFoundError):
        base.rmdir()
    move_back(base.parent)


def candidates(point: Path, here: Path | None) -> list[Path]:
    """Groups in which groups may be made, the best one first."""
    found = []
    if here and _given(own := _delegated_to_us(here), point):
        found.append(own)
    if os.geteuid() == 0 and point not in found:
        found.append(point)
    return found


def _delegated_to_us(here: Path) -> Path:
    """The group that `here` is a part of: a server moves into a part, and so does systemd with DelegateSubgroup=."""
    if here.name == LEAF or (not here.name.endswith(_UNITS) and not _is_marked(here) and _is_marked(here.parent)):
        return here.parent
    return here


def _given(group: Path, point: Path) -> bool:
    """An ordinary user can write only to what was given to it. Root can everywhere, and must be told: by systemd, or by
    a container that shows it no more than its own group.
    """
    if _is_root(group):
        return False
    if os.geteuid() != 0:
        return all(os.access(group / file, os.W_OK) for file in ("", "cgroup.procs", "cgroup.subtree_control"))
    return _is_marked(group) or group == point


def _is_root(group: Path) -> bool:
    """Of the host, where processes and controllers do not exclude each other."""
    return not (group / "cgroup.type").exists()


def _is_marked(group: Path) -> bool:
    """By systemd, with Delegate=yes."""
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            return os.getxattr(group, name) == b"1"
    return False


def _not_given(point: Path, here: Path | None) -> str:
    if here is None:
        return f"{point} does not show the cgroup of this process"
    return f"{here} is not delegated to this user"


def _place_in(parent: Path, name: str, wanted: tuple[str, ...]) -> Place:
    base = parent / name
    reason = ""
    for _ in range(ATTEMPTS):
        refused = {controller: why for controller in wanted if (why := _pass_on(parent, controller))}
        granted = [controller for controller in wanted if controller not in refused]
        if not granted:
            move_back(parent)
            return Place(base=None, refused=refused)
        try:
            base.mkdir()
            for controller in granted:
                (base / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError as error:
            reason = f"{parent}: {error.strerror}"
            with contextlib.suppress(OSError):
                base.rmdir()
            if error.errno != errno.ENOENT:  # a server that stopped took the controllers away again
                break
        else:
            return Place(base=base, refused=refused)
    move_back(parent)
    return Place(base=None, refused=dict.fromkeys(wanted, reason))


def _pass_on(group: Path, controller: str) -> str:
    """Gives `controller` to the groups in `group`; empty where that succeeded, otherwise why not."""
    reason = ""
    for _ in range(ATTEMPTS):
        try:
            if controller not in _words(group / "cgroup.controllers"):
                return f"{group} was not given the {controller} controller"
            if controller in _words(group / "cgroup.subtree_control"):
                return ""
            if not _is_root(group):
                _move(_words(group / "cgroup.procs"), group / LEAF)
            (group / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError as error:
            reason = f"{group}: {error.strerror}"
            if error.errno == errno.EBUSY:
                reason = f"{group} has processes that cannot be moved out of the way"
            elif error.errno != errno.ENOENT:  # a server that stopped took the leaf away again
                break
        else:
            return ""
    return reason


def move_back(group: Path) -> None:
    """Undoes what was done to a group that was given to us, unless somebody uses it."""
    leaf = group / LEAF
    with contextlib.suppress(OSError):
        if not leaf.is_dir() or any(entry.is_dir() and entry != leaf for entry in group.iterdir()):
            return
        if enabled := _words(group / "cgroup.subtree_control"):
            # Refused by the kernel where a server has just started: its group has them enabled too.
            (group / "cgroup.subtree_control").write_text(" ".join(f"-{controller}" for controller in enabled))
        _move(_words(leaf / "cgroup.procs"), group)
        leaf.rmdir()


def _move(pids: Iterable[str], group: Path) -> None:
    for pid in pids:
        group.mkdir(exist_ok=True)
        with contextlib.suppress(ProcessLookupError):  # it has ended
            if pid != "0":  # one that our pid namespace does not show; written, it would mean ourselves
                (group / "cgroup.procs").write_text(pid)


def _words(file: Path) -> list[str]:
    return file.read_text().split()
