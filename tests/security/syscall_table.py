"""System calls that no sandboxed program may make. Written down here on its own, so that a row which is lost from the
filter's table fails a probe instead of vanishing from both.
"""

import pyseccomp

_NAMES = """
mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr statmount listmount
open_tree_attr unshare setns clone3 keyctl add_key request_key bpf perf_event_open userfaultfd io_uring_setup
io_uring_enter io_uring_register kexec_load kexec_file_load init_module finit_module delete_module create_module
query_module get_kernel_syms reboot swapon swapoff acct syslog iopl ioperm quotactl quotactl_fd open_by_handle_at
name_to_handle_at fanotify_init fanotify_mark lookup_dcookie ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp
process_madvise process_mrelease modify_ldt mbind set_mempolicy set_mempolicy_home_node move_pages migrate_pages seccomp
settimeofday clock_settime clock_adjtime adjtimex vmsplice tee memfd_secret sethostname setdomainname vhangup nfsservctl
uselib ustat sysfs _sysctl
"""
DENIED = tuple(_NAMES.split())
_YOUNG = {
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "process_mrelease": 448,
    "set_mempolicy_home_node": 450,
    "statmount": 457,
    "listmount": 458,
    "open_tree_attr": 467,
}
"""The same on every architecture, for a libseccomp that does not know them yet."""


def number(name: str) -> int:
    """Negative where this architecture has no such call."""
    found: int = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
    return found if found >= 0 else _YOUNG.get(name, -1)


def numbers(*names: str) -> dict[str, int]:
    """Of those that this architecture has."""
    return {name: found for name in names if (found := number(name)) >= 0}
