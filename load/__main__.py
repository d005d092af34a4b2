"""`python -m load`."""

import sys

from load.cli import main

if __name__ == "__main__":
    sys.exit(main())
