"""What functions of the runtime take that are far more than an operation: for prices, which count them apart from others."""
from __future__ import annotations

import re

# Instructions of an element beside its loop, of float32 on a core with an FPU. Measured: QEMU, Cortex-M4 and -M55 (which agree
# within 5 %), arm-none-eabi-gcc 12.2 -O3; with two paths, between both.
INSTRUCTIONS = {
    "ceil": 15, "clamp": 6, "cos": 250, "cosh": 130, "erf": 90, "exp": 46, "expm1": 65, "floor": 15, "gelu": 95,
    "gelu_tanh": 85, "log": 60, "log1p": 90, "mish": 192, "pow": 200, "round_even": 15, "sigmoid": 63, "sin": 250,
    "sinh": 130, "softplus": 155, "tan": 280, "tanh": 60}


def instructions(text: str) -> int:
    """Of all such calls in C text, on a core with an FPU."""
    return sum(INSTRUCTIONS.get(name.removesuffix("_f64"), 0) for name in re.findall(r"\bf2c_(\w+)\(", text))
