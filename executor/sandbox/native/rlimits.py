"""Per-process limits. What they cannot hold for a whole tree is held by the cgroup. Imported by the launcher: builtin
modules only.
"""

import resource

TYPE_CHECKING = False  # `typing` would cost each sandbox memory
if TYPE_CHECKING:
    from executor.sandbox.native.plan import Rlimits

MIB = 1024 * 1024
NO_CORE = 1
"""Too small for a file, and the one value with which the kernel starts no core handler of the host either: with 0 it
does, as the host's root. The filter sees to it that it stays.
"""


def forbid_core_files() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (NO_CORE, NO_CORE))


def apply(wanted: "Rlimits") -> None:
    """Never raises a limit: where a lower hard limit is in force, that one holds."""
    limits = {
        resource.RLIMIT_NOFILE: wanted.open_files,
        resource.RLIMIT_FSIZE: wanted.file_bytes,
        resource.RLIMIT_MEMLOCK: 8 * MIB,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_SIGPENDING: 512,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_NICE: 0,
    }
    if wanted.data_bytes:
        limits[resource.RLIMIT_DATA] = wanted.data_bytes  # not the address space: node reserves gigabytes of that
    if wanted.processes:
        limits[resource.RLIMIT_NPROC] = wanted.processes
    if wanted.cpu_seconds:
        limits[resource.RLIMIT_CPU] = wanted.cpu_seconds
    for which, value in limits.items():
        grace = 1 if which == resource.RLIMIT_CPU else 0  # so that SIGXCPU comes before SIGKILL and tells why
        hard = resource.getrlimit(which)[1]
        ceiling = value + grace if hard == resource.RLIM_INFINITY else min(value + grace, hard)
        resource.setrlimit(which, (min(value, ceiling), ceiling))
