"""View -> text of C, and of HTML (escaped). The only file that knows Jinja; templates place values and compute none."""
from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from fuse2c.codegen.view import View
from fuse2c.resources import folder


@cache
def environment() -> jinja2.Environment:
    """Undefined names are errors; whitespace is the template's own."""
    return jinja2.Environment(loader=jinja2.FileSystemLoader(folder("templates")), undefined=jinja2.StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
                              autoescape=jinja2.select_autoescape(["html.j2"]))


def kernel(v: View, template: str) -> str:
    """The C function of a view; of its constants only those that the code names."""
    page = environment().get_template(f"kernels/{template}.c.j2")
    used = set(re.findall(r"\b[A-Z][A-Z0-9_]*\b", page.render(k=replace(v, constants=()))))
    kept = []
    for line in v.constants:
        items = re.findall(r"(\w+) = (-?\d+)", line)
        inside = [f"{k} = {n}" for k, n in items if k in used]
        kept += [f"enum {{ {', '.join(inside)} }};"] * bool(inside)
    text = page.render(k=replace(v, constants=tuple(kept)))
    return re.sub(r"\n[ \t]+\n", "\n\n", re.sub(r"\{\n[ \t]*\n", "{\n", text))


def page(template: str, **values: Any) -> str:
    """Any other template."""
    return environment().get_template(template).render(**values)


def markup(text: str) -> Markup:
    """Text that is HTML or SVG already, and is not escaped again."""
    return Markup(text)
