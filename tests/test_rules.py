"""Every rule's example: it fires there, it means the same, C computes it; and without the rule too."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from graphs import assert_c_is_reference, compile, outputs, reasons, samples
from onnx import parser

from fuse2c.errors import PlanError
from fuse2c.fusion import catalog, examples, rules

FOLDS = {f.name for f in catalog.folds()}
FUSIONS = {f.name for f in rules.rules()}


def test_every_rule_has_an_example_and_says_what_it_pays() -> None:
    assert set(examples.GRAPHS) == FOLDS | FUSIONS | {"join", "in-place"}
    assert all(r.pays for r in (*catalog.folds(), *rules.rules()))


@pytest.mark.parametrize("rule", sorted(examples.GRAPHS))
def test_an_example_fires_and_means_the_same(rule: str, tmp_path: Path) -> None:
    model = parser.parse_model(examples.text(rule))
    stage = "fold" if rule in FOLDS else "fuse" if rule in FUSIONS else "embed"
    compiled, without = compile(model, tmp_path), compile(model, tmp_path, no_fuse_rules=(rule,))
    if rule == "join":
        assert compiled.plan.launches == 1 < without.plan.launches
    elif rule != "constant":        # which keeps no log: a model has thousands
        assert reasons(compiled, stage, rule, taken=True) and not reasons(without, stage, rule, taken=True)
    for found in (compiled, without):
        rows = samples(found.plan)
        assert_c_is_reference(found, rows)
        for got, want in zip(outputs(found.plan.graph, rows), outputs(found.plan.source, rows), strict=True):
            for x, y in zip(got.values(), want.values(), strict=True):
                if x.dtype.kind == "f":
                    assert np.allclose(x, y, rtol=1e-5, atol=1e-5 * float(np.abs(y).max()))
                else:
                    assert np.abs(x.astype(int) - y.astype(int)).max() <= 1


def test_names_that_do_not_exist(tmp_path: Path) -> None:
    model = parser.parse_model(examples.text("epilogue"))
    with pytest.raises(PlanError, match="no rule 'epilog'") as e:
        compile(model, tmp_path, no_fuse_rules=("epilog",))
    assert "epilogue" in str(e.value)
    with pytest.raises(PlanError, match="no node 'nobody'"):
        compile(model, tmp_path, fuse_barriers=("nobody",))
