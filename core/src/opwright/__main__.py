"""``python -m opwright`` runs the command line, even if the script is not on the path."""

import sys

from opwright.cli import main

sys.exit(main())
