"""Readers of model files."""
from __future__ import annotations

from pathlib import Path

import numpy as np

from fuse2c.frontend.onnx import read
from fuse2c.ir.graph import Graph
from fuse2c.options import Options

__all__ = ["load"]


@np.errstate(all="ignore")      # constants may overflow or be no number, as they would at run time
def load(path: Path, options: Options) -> Graph:
    """The graph of a model file. Raises ModelError."""
    return read(path, options)
