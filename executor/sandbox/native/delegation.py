"""Where on cgroup v2 a group may be made for sandboxes, and what must happen to its parent first.

On v2, processes and sub-groups that have controllers exclude each other, except in the root of the host. So in a group
that was given to us, all processes (we, the shell that started us, another server) move into a leaf. The last server
to go moves back who is there. Several servers share one group without a lock: who sees that another one has undone a
step takes it again. Imported by the launcher: stdlib only.
"""

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LEAF = "executor-server"
ATTEMPTS = 20
"""Each one is undone only by a process that is born, or a server that starts or stops, in the same instant."""
_UNDONE = (errno.EBUSY, errno.ENOENT, errno.EEXIST, errno.ENODEV, errno.EOPNOTSUPP)
"""What the kernel says where that has happened."""
ANSWER_SECONDS = 5.0
_UNITS = (".service", ".scope", ".slice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A group made for sandboxes, or the attempt at it."""

    base: Path | None
    refused: dict[str, str]
    """Controllers that groups in `base` do not have, with the reason."""


def make_place(point: Path, here: Path | None, name: str, wanted: tuple[str, ...], *, as_root: bool) -> Place:
    """A group `name` with all of `wanted`, or else with most. `here` is the group of this process below `point`."""
    places = []
    for parent in candidates(point, here, as_root=as_root):
        places.append(_place_in(parent, name, wanted))
        if not places[-1].refused:
            break
    nowhere = Place(base=None, refused=dict.fromkeys(wanted, _not_given(point, here)))
    best = min(places, key=lambda place: len(place.refused), default=nowhere)
    for place in places:
        if place.base and place is not best:
            with contextlib.suppress(OSError):  # the next start sweeps what is left
                remove_place(place.base)
    return best


def remove_place(base: Path) -> None:
    """Raises OSError where something in it is still alive; nothing happens where it is gone already."""
    with contextlib.suppress(FileNotFoundError):
        base.rmdir()
    move_back(base.parent)


def candidates(point: Path, here: Path | None, *, as_root: bool) -> list[Path]:
    """Groups in which groups may be made, the best one first."""
    found = []
    if here and _given(own := _whole(here), point, as_root=as_root):
        found.append(own)
    if as_root and point not in found:
        found.append(point)
    return found


def _whole(here: Path) -> Path:
    """The group that `here` is a part of: a server moves into a part, and systemd starts it in one with
    DelegateSubgroup=.
    """
    if here.name == LEAF or (not here.name.endswith(_UNITS) and not _is_marked(here) and _is_marked(here.parent)):
        return here.parent
    return here


def _given(group: Path, point: Path, *, as_root: bool) -> bool:
    """An ordinary user can write only to what was given to it, or to its systemd. Root can everywhere, and must be
    told: by systemd, or by a container that shows it no more than its own group.
    """
    if _is_root(group):
        return False
    if as_root:
        return _is_marked(group) or group == point
    writable = all(os.access(group / file, os.W_OK) for file in ("", "cgroup.procs", "cgroup.subtree_control"))
    return writable and (_is_marked(group) or not (group.name.endswith(_UNITS) and _is_kept_by_systemd(group.name)))


def _is_kept_by_systemd(unit: str) -> bool:
    """A unit of the user's own systemd, without Delegate=yes: it may be ended as a whole when the kernel kills one
    sandbox for its memory. No file says so. Where systemd does not answer, what can be written to counts as given.
    """
    command = ["systemctl", "--user", "show", "--property=LoadState,Delegate", "--", unit]
    try:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False
    return {"LoadState=loaded", "Delegate=no"} <= {*answer.stdout.splitlines()}


def _is_root(group: Path) -> bool:
    """Of the host, where processes and controllers do not exclude each other."""
    return not (group / "cgroup.type").exists()


def _is_marked(group: Path) -> bool:
    """By the host's systemd, with Delegate=yes."""
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
    refused: dict[str, str] = {}
    for _ in range(ATTEMPTS):
        refused = _pass_on(parent, wanted)
        granted = [controller for controller in wanted if controller not in refused]
        if not granted:
            break
        try:
            base.mkdir()
            _switch(base, "+", granted)
        except OSError as error:
            refused = dict.fromkeys(wanted, f"{parent}: {error.strerror}")
            with contextlib.suppress(OSError):
                base.rmdir()
            if error.errno not in _UNDONE:
                break
        else:
            return Place(base=base, refused=refused)
    move_back(parent)
    return Place(base=None, refused=refused)


def _pass_on(group: Path, wanted: tuple[str, ...]) -> dict[str, str]:
    """Gives `wanted` to the groups in `group`; returns those that it could not give, with the reason."""
    try:
        own = _words(group / "cgroup.controllers")
    except OSError as error:
        return dict.fromkeys(wanted, f"{group}: {error.strerror}")
    refused = {controller: f"{group} has no {controller} controller" for controller in wanted if controller not in own}
    granted = [controller for controller in wanted if controller in own]
    if granted and _enable(group, granted):  # one that cannot be had must not cost us the others
        refused |= {controller: why for controller in granted if (why := _enable(group, [controller]))}
    return refused


def _enable(group: Path, controllers: list[str]) -> str:
    """Empty where it succeeded, otherwise why not."""
    reason = ""
    for _ in range(ATTEMPTS):
        try:
            if not _is_root(group):
                _move(_words(group / "cgroup.procs"), group / LEAF)
            enabled = _words(group / "cgroup.subtree_control")
            _switch(group, "+", [controller for controller in controllers if controller not in enabled])
        except OSError as error:
            reason = f"{group}: {error.strerror}"
            if error.errno == errno.EBUSY:
                reason = f"{group} has processes that cannot be moved out of the way"
            if error.errno not in _UNDONE:
                break
        else:
            return ""
    return reason


def _switch(group: Path, sign: str, controllers: Iterable[str]) -> None:
    """All in one write, which the kernel does as a whole or not at all: with pids and cpu alone, a group can be filled
    again, and is then of the kind that is never given memory.
    """
    if change := " ".join(sign + controller for controller in controllers):
        (group / "cgroup.subtree_control").write_text(change)


def move_back(group: Path) -> None:
    """Undoes what was done to a group that was given to us, unless somebody uses it."""
    leaf = group / LEAF
    with contextlib.suppress(OSError):
        if not leaf.is_dir() or any(entry.is_dir() and entry != leaf for entry in group.iterdir()):
            return
        # Refused by the kernel where a server has just started: its group has them enabled too.
        _switch(group, "-", _words(group / "cgroup.subtree_control"))
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
