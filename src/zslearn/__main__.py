"""`python -m zslearn` is the command line."""

import sys

from zslearn.cli._main import main

if __name__ == "__main__":
    sys.exit(main())
