"""`executor bench` with the peers that are libraries of Python: python benchmarks/bench.py [OPTIONS], or `make bench`.

With QUICK in the environment it takes less than a minute.
"""

import os
import sys

from libraries import join_llm_sandbox, join_sandlock

from executor.app import native_backend
from executor.cli.main import Wiring, start


def main() -> int:
    quick = ["--quick"] if os.environ.get("QUICK") else []
    wiring = Wiring(make_backend=native_backend, peers=(join_sandlock, join_llm_sandbox))
    return start(["bench", *quick, *sys.argv[1:]], wiring)


if __name__ == "__main__":
    sys.exit(main())
