"""python -m fuse2c."""
from __future__ import annotations

from fuse2c.cli import main

main()
