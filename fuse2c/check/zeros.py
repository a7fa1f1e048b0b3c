"""Which share of each layer's operand is zero, for typical inputs: what `--calib` and `--profile-sparsity` measure."""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fuse2c.check.reference import run_graph
from fuse2c.errors import ModelError
from fuse2c.passes.trade import operand
from fuse2c.plan import Plan


@np.errstate(all="ignore")      # as in a check
def measured(plan: Plan, samples: Sequence[Mapping[str, np.ndarray]]) -> dict[str, float]:
    """By tensor, the share of zeros in the first operand of each step that multiplies; states begin as zeros."""
    g = plan.graph
    zero = dict[str, int]()
    for t in (operand(s) for s in plan.steps if s.work.macs):
        quant = g.type(t).quant if t else None
        if t and g.data(t) is None and (g.type(t).dtype.is_float or (quant is not None and quant.per_tensor)):
            zero[t] = 0 if quant is None else quant.zero[0]
    states = {t: np.zeros(g.type(t).shape, g.type(t).dtype.numpy) for t, _ in plan.options.stateful}
    found = dict.fromkeys(zero, 0.0)
    for row in samples:
        values = run_graph(g, {**row, **states})
        states = {t: values[y] for t, y in plan.options.stateful}
        for t, z in zero.items():
            found[t] += float(np.mean(values[t] == z)) / len(samples)
    return found


def write(path: Path, zeros: Mapping[str, float], samples: int) -> None:
    """A file for `--sparsity`."""
    content = {"samples": samples, "zeros": {t: round(share, 6) for t, share in zeros.items()}}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read(path: Path) -> dict[str, float]:
    """The shares in such a file. Raises ModelError if it is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["zeros"]
        shares = {str(t): float(share) for t, share in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise ModelError(f"cannot read {path.name}: {e}", hint="a file that check --profile-sparsity wrote") from None
    wrong = next((t for t, share in shares.items() if not 0.0 <= share <= 1.0), None)
    if wrong is not None:
        raise ModelError(f"{path.name}: a share of {shares[wrong]:g} zeros", tensor=wrong, hint="a number from 0 to 1")
    return shares
