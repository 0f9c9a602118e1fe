"""``python -m mydev`` and the installed command."""

from __future__ import annotations

import sys

from mydev.cli import main

if __name__ == "__main__":
    sys.exit(main())
