"""Templates place values; they do not compute them. What is wrong here belongs into Python, where it can be tested."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest
from jinja2 import nodes

from fuse2c.codegen import render

ROOT = Path(__file__).parents[1] / "templates"
TEMPLATES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.j2"))
ARITHMETIC = (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow, nodes.Concat, nodes.Neg)
COMPUTING = (*ARITHMETIC, nodes.Assign, nodes.AssignBlock, nodes.Call, nodes.Macro, nodes.CallBlock)
FILTERS = {"indent", "join", "replace"}
# The share of control lines, plus three: every kernel needs its include and one loop, however short it is. Kernels and
# model files read as C with holes. Parts are what several of them share: a list of lanes, of calls, is all loop, so
# that the templates that include it are not; they may be half control lines, since what is left is looked at alone.
SHARE = {"parts": 0.5, "host": 0.4, "": 0.25}
GRACE = 3


def problems(text: str, share: float = 0.25) -> Iterator[str]:
    """What a template does that it should not."""
    tree = jinja2.Environment().parse(text)
    for kind in COMPUTING:
        for n in tree.find_all(kind):
            yield f"line {n.lineno}: {type(n).__name__}"
    for f in tree.find_all(nodes.Filter):
        if f.name not in FILTERS:
            yield f"line {f.lineno}: filter {f.name}"
    lines = text.splitlines()
    control = sum("{%" in line for line in lines)
    if control > share * len(lines) + GRACE:
        yield f"{control} of {len(lines)} lines are control lines: this is a program, not C"


def roots(text: str) -> set[str]:
    """Names that a template reads and neither it nor Jinja defines."""
    tree = jinja2.Environment().parse(text)
    bound = {n.name for n in tree.find_all(nodes.Name) if n.ctx in ("store", "param")}
    return {n.name for n in tree.find_all(nodes.Name) if n.ctx == "load"} - bound - {"loop"}


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_is_plain_c(name: str) -> None:
    share = SHARE.get(name.split("/")[0], SHARE[""])
    assert list(problems((ROOT / name).read_text(encoding="utf-8"), share)) == []


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name.startswith("kernels/")])
def test_a_kernel_sees_its_view_only(name: str) -> None:
    assert roots((ROOT / name).read_text(encoding="utf-8")) <= {"k"}


def test_undefined_names_are_errors() -> None:
    """A forgotten name must not silently drop a bias."""
    template = render.environment().from_string("{{ k.bias }} {{ other }}")
    for values in ({"k": {}}, {"k": {"bias": 1}}):
        with pytest.raises(jinja2.UndefinedError):
            template.render(**values)


@pytest.mark.parametrize(("text", "found"), [
    ("{% set n = k.h %}", "line 1: Assign"), ("{{ k.h * 4 }}", "line 1: Mul"), ("{{ k.h - 1 }}", "line 1: Sub"),
    ("{{ k.name ~ '_w' }}", "line 1: Concat"), ("{{ -k.h }}", "line 1: Neg"), ("{{ k.shape() }}", "line 1: Call"),
    ("\n{% for i in range(3) %}{% endfor %}", "line 2: Call"), ("{{ k.name | upper }}", "line 1: filter upper"),
    ("{% macro f(x) %}{% endmacro %}", "line 1: Macro"), ("{% set n %}3{% endset %}", "line 1: AssignBlock"),
    ("{% if a %}\n{% if b %}\n{% if c %}\nx;\n{% endif %}\n{% endif %}\n{% endif %}", "6 of 7 lines are control lines"),
])
def test_the_lint_bites(text: str, found: str) -> None:
    (first, *rest) = problems(text)
    assert first.startswith(found) and not rest


def test_the_lint_lets_plain_text_pass() -> None:
    text = "{% include 'x' %}\n{% for l in k.lanes if l.text != '' %}\n    {{ l.text | indent(4, true) }}\n{% endfor %}\n"
    assert list(problems(text + "int a;\n")) == []
    assert roots(text) == {"k"} and roots("{{ m.name }}{{ trace }}") == {"m", "trace"}
