"""`python -m tests.chaos.control`."""

import sys

from tests.chaos.control.run import main

if __name__ == "__main__":
    sys.exit(main())
