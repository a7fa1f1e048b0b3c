"""Prices into a target file: from a fit, or from cycles that were measured on a board."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from fuse2c.target import Price

MARK = "# Prices of kernels follow; a command wrote them, and writes them anew."


def with_prices(text: str, prices: Mapping[str, Price], note: str) -> str:
    """The text of a target file with these prices at its end, and `note` as their source."""
    lines = [line for line in text.split(f"\n{MARK}\n")[0].rstrip().split("\n") if not line.startswith(("price =", "price  "))]
    if "[sources]" not in lines:
        lines += ["", "[sources]"]
    at = lines.index("[sources]") + 1
    lines.insert(at, f'price = "{note}"')
    for kernel, p in sorted(prices.items()):
        values = ((f.name, getattr(p, f.name)) for f in fields(p))
        table = [f"{key} = {value:g}" if isinstance(value, int) else f"{key} = {value!r}" for key, value in values
                 if value not in (0.0, Price.__dataclass_fields__[key].default)]
        lines += (["", MARK] if kernel == min(prices) else []) + ["", f"[price.{kernel}]", *table]
    return "\n".join(lines) + "\n"
