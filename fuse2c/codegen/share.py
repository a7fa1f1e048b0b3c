"""Kernels that differ in their weights only become one C function: the tables are its first parameters."""
from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from fuse2c.codegen import render
from fuse2c.codegen.view import View
from fuse2c.plan import Plan

FUNCTION = re.compile(r"(?:/\*[^\n]*\*/\n)?^static [^\n]*?\b(\w+)\([^\n]*\)\n\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)


def kernels(plan: Plan, views: Sequence[View]) -> tuple[tuple[View, ...], tuple[str, ...]]:
    """(views, the C functions that they need): shared where the option says so.

    `auto` shares kernels that are launched on their own: steps of a joined kernel are compiled into it, where a
    function of their own would cost a call for each row. Of those it shares the innermost loops.
    """
    texts = ["" if s.spec.written else render.kernel(v, s.kernel.name) for v, s in zip(views, plan.steps, strict=True)]
    mode = plan.options.share_kernels
    alike: dict[tuple[str, ...], list[int]] = {}
    for i, (v, text) in enumerate(zip(views, texts, strict=True)):
        if text and v.table and (mode == "always" or (mode == "auto" and not v.inlined)):
            alike.setdefault((body(v, text), *v.table_ctype.values()), []).append(i)
    changed, found = list(views), list(texts)
    groups = [g for g in alike.values() if len(g) > 1]
    for group in groups:
        first = views[group[0]]
        linkage = "F2C_SHARED" if any(views[i].inlined for i in group) else "F2C_KERNEL"
        keys = [k for k in first.table if re.search(rf"\b{first.table[k]}\b", texts[group[0]])]
        text = render.kernel(replace(first, linkage=linkage), plan.steps[group[0]].kernel.name)
        own = {m[1] for m in FUNCTION.finditer(text)}
        text = with_parameters(first, text, keys, own).replace(" */", f"\n *   shared by {len(group)} steps */", 1)
        found[group[0]] = text
        for i in group:
            changed[i] = replace(views[i], callee=first.function, tables_first=tuple(views[i].table[k] for k in keys))
        for i in group[1:]:
            found[i] = ""
    if mode != "never":
        whole = {i for g in groups for i in g}
        share_cores({i: v for i, v in enumerate(views) if i not in whole}, found)
    return tuple(changed), tuple(text for text in found if text)


def body(v: View, text: str) -> str:
    """The text of a kernel without its comment and its name."""
    code = text[text.index("*/") + 2:]
    return re.sub(rf"\b{v.function}(?=_|\b)", "@", code)


@dataclass(frozen=True, slots=True)
class Core:
    """The innermost loops of a kernel, a function of their own, in the kernel's text."""

    kernel: int
    name: str
    suffix: str         # what makes the name, behind that of the kernel


def share_cores(views: Mapping[int, View], texts: list[str]) -> None:
    """Innermost loops that differ in their weights only become those of the first kernel that has them."""
    alike: dict[tuple[str, ...], list[Core]] = {}
    for i, v in views.items():
        parts = {m[1]: m[0] for m in FUNCTION.finditer(texts[i])}
        for name, part in parts.items():
            if " F2C_CORE " in part:
                text = with_finish(v, parts, name)
                types = [f"{k} {v.table_ctype[k]}" for k in used_keys(v, text)]
                key = (re.sub(rf"\b{v.function}_", "@_", text), *types)
                alike.setdefault(key, []).append(Core(i, name, name.removeprefix(v.function)))
    groups = [g for g in alike.values() if len(g) > 1]
    owned: dict[int, dict[str, int]] = {}
    for first, *rest in groups:
        owned.setdefault(first.kernel, {})[first.name] = len(rest) + 1
    given: dict[str, tuple[str, ...]] = {}
    for i, names in owned.items():
        texts[i], given_here = _owner(views[i], texts[i], names)
        given |= given_here
    for first, *rest in groups:
        for core in rest:
            texts[core.kernel] = _borrower(views[core.kernel], texts[core.kernel], core, first.name, given[first.name])


def used_keys(v: View, text: str) -> tuple[str, ...]:
    """Which tables of a kernel a text names."""
    return tuple(k for k in v.table if re.search(rf"\b{v.table[k]}\b", text))


def with_finish(v: View, parts: Mapping[str, str], name: str) -> str:
    """The text of a function of a kernel, behind that of the finishing function if there is one that it calls."""
    out = f"{v.function}_out"
    return (parts.get(out, "") if out in parts[name] else "") + parts[name]


def _owner(v: View, text: str, names: Mapping[str, int]) -> tuple[str, dict[str, tuple[str, ...]]]:
    """A kernel whose cores `names` take their tables as parameters; of each core the tables that it takes."""
    finishing = f"{v.function}_out"
    parts = {m[1]: m[0] for m in FUNCTION.finditer(text)}
    changed = {*names, *(finishing for name in names if finishing in parts[name])}
    given = {name: used_keys(v, with_finish(v, parts, name)) for name in names}
    text = with_parameters(v, text, tuple(v.table), changed)
    for name, users in names.items():
        text = re.sub(rf"( \*/\n(?:static [^\n]*\b{name}\())", rf" Shared by {users} steps.\1", text)
    return text, given


def _borrower(v: View, text: str, core: Core, name: str, keys: Sequence[str]) -> str:
    """A kernel that calls another one's core with its own tables."""
    finishing = f"{v.function}_out"
    for gone in (core.name, finishing):
        parts = {m[1]: m[0] for m in FUNCTION.finditer(text)}
        others = "".join(part for other, part in parts.items() if other != gone)
        if gone == core.name or (gone in parts and gone not in others):
            text = text.replace(f"{parts[gone]}\n", "")
    return re.sub(rf"\b{core.name}\(", f"{name}({''.join(f'{v.table[k]}, ' for k in keys)}", text)


def with_parameters(v: View, text: str, keys: Sequence[str], changed: Collection[str]) -> str:
    """The functions of a kernel; those in `changed` have pointers to the tables that they need in front of the others."""
    needed: dict[str, set[str]] = {}
    parts = {m[1]: m[0] for m in FUNCTION.finditer(text)}
    for name in (n for n in parts if n in changed):
        own = {k for k in keys if re.search(rf"\b{v.table[k]}\b", parts[name])}
        needed[name] = own.union(*(used for callee, used in needed.items() if f"{callee}(" in parts[name]))
    for caller, part in parts.items():
        new = part
        for k in keys if caller in changed else ():
            new = re.sub(rf"\b{v.table[k]}\b", f"t_{k}", new)
        for name, used in needed.items():
            given = "".join(f"{f't_{k}' if caller in changed else v.table[k]}, " for k in keys if k in used)
            new = re.sub(rf"(?<!\w )\b{name}\(", f"{name}({given}", new)        # no type in front: a call
        if caller in needed:
            declared = "".join(f"const {v.table_ctype[k]} *restrict t_{k}, " for k in keys if k in needed[caller])
            new = re.sub(rf"(?<=[\w*] )\b{caller}\(|(?<=\*){caller}\(", f"{caller}({declared}", new, count=1)
        text = text.replace(part, new)
    return text
