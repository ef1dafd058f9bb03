"""``python -m opwright``: the command line if the script is not on the path."""

import sys

from opwright.cli import main

sys.exit(main())
