"""View -> text of C, and of HTML (escaped). The only file that knows Jinja; templates place values and compute none."""
from __future__ import annotations

import re
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
    """The C functions of a view; each has those of its constants that it names."""
    text = environment().get_template(f"kernels/{template}.c.j2").render(k=v)
    text = "".join(_named(part) for part in re.split(r"(?<=\n}\n)", text))
    return re.sub(r"\n[ \t]+\n", "\n\n", re.sub(r"\{\n[ \t]*\n", "{\n", text))


def _named(text: str) -> str:
    """A function without the constants that its code does not name."""
    used = set(re.findall(r"\b[A-Z][A-Z0-9_]*\b", re.sub(r"enum \{.*?\};", "", text)))

    def kept(line: re.Match[str]) -> str:
        inside = [item for item in line[2].split(", ") if item.split(" ")[0] in used]
        return f"{line[1]}enum {{ {', '.join(inside)} }};\n" if inside else ""
    return re.sub(r"^([ \t]*)enum \{ (.*) \};\n", kept, text, flags=re.MULTILINE)


def page(template: str, **values: Any) -> str:
    """Any other template."""
    return environment().get_template(template).render(**values)


def markup(text: str) -> Markup:
    """Text that is HTML or SVG already, and is not escaped again."""
    return Markup(text)
