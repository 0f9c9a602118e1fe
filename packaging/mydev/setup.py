"""Builds the distribution mydev, by the setup.py of the tree and the pyproject.toml beside this file."""

import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).resolve().parents[2] / "setup.py"), run_name="__main__")
