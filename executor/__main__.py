"""`python -m executor`, and the `executor` script."""

import sys

from executor.cli.main import start


def main() -> None:
    sys.exit(start())


if __name__ == "__main__":
    main()
