"""Kernels that differ in their weights only become one C function: the tables are its first parameters."""
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fuse2c.codegen import render
from fuse2c.codegen.view import View
from fuse2c.plan import Plan


def kernels(plan: Plan, views: Sequence[View]) -> tuple[tuple[View, ...], tuple[str, ...]]:
    """(views, the C functions that they need): shared where the option says so.

    `auto` shares kernels that are launched on their own: steps of a joined kernel are compiled into it, where a
    function of their own would cost a call for each row.
    """
    texts = ["" if s.spec.written else render.kernel(v, s.kernel.name) for v, s in zip(views, plan.steps, strict=True)]
    alike: dict[tuple[str, ...], list[int]] = {}
    for i, (v, text) in enumerate(zip(views, texts, strict=True)):
        mode = plan.options.share_kernels
        if text and v.table and (mode == "always" or (mode == "auto" and not v.inlined)):
            alike.setdefault((body(v, text), *v.table_ctype.values()), []).append(i)
    changed, found = list(views), list(texts)
    for group in (g for g in alike.values() if len(g) > 1):
        first = views[group[0]]
        linkage = "F2C_SHARED" if any(views[i].inlined for i in group) else "F2C_KERNEL"
        keys = [k for k in first.table if re.search(rf"\b{first.table[k]}\b", texts[group[0]])]
        found[group[0]] = with_parameters(replace(first, linkage=linkage), plan.steps[group[0]].kernel.name, keys, len(group))
        for i in group:
            changed[i] = replace(views[i], callee=first.function, tables_first=tuple(views[i].table[k] for k in keys))
        for i in group[1:]:
            found[i] = ""
    return tuple(changed), tuple(text for text in found if text)


def body(v: View, text: str) -> str:
    """The text of a kernel without its comment and its name."""
    code = text[text.index("*/") + 2:]
    return re.sub(rf"\b{v.function}(?=_|\b)", "@", code)


def with_parameters(v: View, template: str, keys: Sequence[str], users: int) -> str:
    """The functions of a kernel, each with pointers to the tables that it needs in front of its other parameters."""
    text = render.kernel(v, template)
    for key in keys:
        text = re.sub(rf"\b{v.table[key]}\b", f"t_{key}", text)
    starts = [(m[1], m.start()) for m in re.finditer(rf"^static .*?\b({v.function}\w*)\(", text, re.MULTILINE)]
    needed: dict[str, set[str]] = {}
    for (name, start), (_, end) in zip(starts, [*starts[1:], ("", len(text))], strict=True):
        own = {k for k in keys if re.search(rf"\bt_{k}\b", text[start:end])}
        needed[name] = own.union(*(used for callee, used in needed.items() if f" {callee}(" in text[start:end]))
    for name, used in needed.items():
        declared = "".join(f"const {v.table_ctype[k]} *restrict t_{k}, " for k in keys if k in used)
        given = "".join(f"t_{k}, " for k in keys if k in used)
        text = re.sub(rf"(?<=\w )\b{name}\(", f"{name}({declared}", text)           # a type in front: the definition
        text = re.sub(rf"(?<!\w )\b{name}\((?!const)", f"{name}({given}", text)
    return text.replace(" */", f"\n *   shared by {users} steps */", 1)
