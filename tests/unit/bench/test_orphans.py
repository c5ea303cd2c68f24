import subprocess
import sys

PROGRAM = """
import os, sys
from executor.bench import orphans

orphans.adopt()
reading, writing = os.pipe()
parent = os.fork()
if parent == 0:
    if os.fork() == 0:
        os.read(reading, 1)  # until the parent of this one is gone
        os._exit(0)
    os._exit(0)
os.waitpid(parent, 0)
os.write(writing, b"x")
os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
print(orphans.reap(), orphans.reap())
"""


def test_a_process_whose_parent_ended_first_is_adopted_and_waited_for():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "1 0\n"
