"""``python -m torch_mydev`` and the installed command."""

from __future__ import annotations

import sys

from torch_mydev.cli import main

if __name__ == "__main__":
    sys.exit(main())
