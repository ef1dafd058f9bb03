"""Run the Python blocks of a page in another environment, which has no compiler.

``run_readme.py PYTHON FOLDER PAGE``
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
from pages import check_python

python, folder, page = sys.argv[1:]
variables = {"PATH": str(Path(python).parent), "HOME": folder}
check_python(Path(page), Path(folder), python=python, **variables)
