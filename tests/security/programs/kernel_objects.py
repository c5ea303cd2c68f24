"""Make as many of each kind of kernel object as the kernel lets us; print kind -> [how many, errno that ended it].

Asked to hold, it keeps the last of them and waits to be killed.
"""

import ctypes
import fcntl
import os
import select
import sys
import time

import hostile

CALLS, HOLD = hostile.given()
MOST = 50_000
F_SETPIPE_SZ = 1031
IPC_CREAT = 0o1000
LARGEST_PIPE = 1 << 20

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
kept = []


def call(name, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(CALLS[name]), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def timer():
    call("timer_create", 0, None, ctypes.byref(ctypes.c_int()))


def inotify_instance():
    call("inotify_init1", os.O_CLOEXEC)


def queue():
    call("mq_open", b"queue", os.O_CREAT | os.O_RDWR, 0o600, None)


def shared_memory():
    call("shmget", 0, ctypes.c_size_t(1 << 30), 0o600 | IPC_CREAT)


def semaphores():
    call("semget", 0, 100, 0o600 | IPC_CREAT)


def message_queue():
    call("msgget", 0, 0o600 | IPC_CREAT)


def asynchronous_io():
    call("io_setup", 1000, ctypes.byref(ctypes.c_ulong(0)))


def largest_pipe():
    reading, writing = os.pipe()
    kept.extend((reading, writing))
    fcntl.fcntl(writing, F_SETPIPE_SZ, LARGEST_PIPE)


def epoll_nest():
    inner = kept[-1] if kept and isinstance(kept[-1], select.epoll) else select.epoll()
    outer = select.epoll()
    outer.register(inner.fileno())
    kept.append(outer)


def until_refused(make):
    for count in range(MOST):
        try:
            make()
        except OSError as error:
            return [count, hostile.name(error.errno)]
    return [MOST, "never"]


def let_go():
    for one in kept:
        one.close() if isinstance(one, select.epoll) else os.close(one)
    kept.clear()


answers = {}
for make in (queue, timer, shared_memory, semaphores, message_queue, asynchronous_io):
    answers[make.__name__] = until_refused(make)
answers["epoll_nest"] = until_refused(epoll_nest)
let_go()
answers["largest_pipe"] = until_refused(largest_pipe)
if not HOLD:
    let_go()
answers["inotify_instance"] = until_refused(inotify_instance)
hostile.show(answers)
sys.stdout.flush()
if HOLD:
    time.sleep(60)
