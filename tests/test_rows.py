"""Row by row is the same as layer by layer: shapes whose axes could be mistaken for each other, and groups in pieces."""
from __future__ import annotations

from pathlib import Path

import cases
import cases_ops
import pytest
from graphs import assert_c_is_reference
from graphs import compile as compiled

LAYERS = ("conv-same-upper", "conv-valid", "net-square", "net-one-row", "net-planar", "net-residual-relu", "net-nhwc")
OPERATORS = ("diamond", "mul-stored")


@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("name", [*LAYERS, *OPERATORS])
def test_rows_give_what_layers_give(name: str, fuse: bool, tmp_path: Path) -> None:
    models = [cases_ops.operator(name)] if name in OPERATORS else [
        cases.layer(name, style) for style in (cases.FLOAT, cases.STYLES["s8"])]
    for model in models:
        assert_c_is_reference(compiled(model, tmp_path, optimize="ram", fuse=fuse))


def test_a_group_goes_on_where_a_whole_step_interrupted_it(tmp_path: Path) -> None:
    c = compiled(cases_ops.operator("mul-stored"), tmp_path, optimize="ram", fuse=False)
    whole = [i for i, call in enumerate(c.plan.calls)
             if (call.first, call.end) == (0, c.plan.steps[call.step].spec.rows)]
    split = {call.step for call in c.plan.calls if call.first > 0}
    assert whole and split, "the case has no such schedule any more: find another one"
