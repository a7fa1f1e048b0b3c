"""Kernels that differ in their weights only become one C function: the tables are its first parameters.

So do the innermost loops of kernels of other sizes: of what their constants say, depths, numbers of outputs and distances
are parameters, if the loops are the same otherwise. So are the factors and offsets by which their elements are finished: a
core has those in registers. Shifts are none, which are a part of instructions.
"""
from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fuse2c.codegen import loops, render
from fuse2c.codegen.view import View
from fuse2c.names import identifier
from fuse2c.plan import Plan

FUNCTION = re.compile(r"(?:/\*[^\n]*\*/\n)?^static [^\n]*?\b(\w+)\([^\n]*\)\n\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
CORE = re.compile(r"^static F2C_(?:TILE_|ROW_)?CORE ", re.MULTILINE)
ENUM = re.compile(r"^ *enum \{ (.*) \};\n", re.MULTILINE)
GIVEN = re.compile(rf"^ *{loops.BOUND}\(.*\n", re.MULTILINE)
FREE = frozenset({"WORDS", "QUADS", "FIRST", "PAIR", "GROUP_OUT", "GROUP_C", "IN_C", "IN_W", "OUT_C", "X_SC", "X_SW",
                  "Y_SC", "Y_SW", "GROUP_STEP", "COLUMN_STEP", "MIDDLE", "WHOLE"})
"""Constants that may be parameters of a shared core: they are no sizes of arrays, and nothing is unrolled by them."""
FINISHED = re.compile(r"(?<== )f2c_(?:requant|narrow)_[su]8\(.*(?=, \d+\);)")
NUMBER = re.compile(r"(?<![\w.\[])-?\d+\b(?!\.)")


def kernels(plan: Plan, views: Sequence[View]) -> tuple[tuple[View, ...], tuple[str, ...]]:
    """(views, the C functions that they need): shared where the option says so.

    `auto` shares innermost loops, and kernels that are launched on their own: steps of a joined kernel are compiled into
    it, where a function of their own would cost a call for each row.
    """
    texts = ["" if s.spec.written else render.kernel(v, s.kernel.name) for v, s in zip(views, plan.steps, strict=True)]
    mode = plan.options.share_kernels
    shared = [""] * len(texts)
    if mode != "never":
        shared = share_cores(identifier(plan.graph.name), views, texts)
    alike: dict[tuple[str, ...], list[int]] = {}
    for i, (v, text) in enumerate(zip(views, texts, strict=True)):
        if text and v.table and (mode == "always" or (mode == "auto" and not v.inlined)):
            alike.setdefault((body(v, text), *v.table_ctype.values()), []).append(i)
    changed, found = list(views), list(texts)
    for group in (g for g in alike.values() if len(g) > 1):
        first = views[group[0]]
        linkage = "F2C_SHARED" if any(views[i].inlined for i in group) else "F2C_KERNEL"
        keys = used_keys(first, texts[group[0]])
        text = linked(first, texts[group[0]], linkage)
        own = {m[1] for m in FUNCTION.finditer(text)}
        text = with_parameters(first, text, keys, own).replace(" */", f"\n *   shared by {len(group)} steps */", 1)
        found[group[0]] = text
        for i in group:
            changed[i] = replace(views[i], callee=first.function, tables_first=tuple(views[i].table[k] for k in keys))
        for i in group[1:]:
            found[i] = ""
    return tuple(changed), tuple("\n".join(filter(None, pair)) for pair in zip(shared, found, strict=True) if any(pair))


def linked(v: View, text: str, linkage: str) -> str:
    """A kernel whose function has another linkage; one of its own counts its calls."""
    head = f"static {v.linkage} void {v.function}("
    if v.linkage == linkage:
        return text
    text = text.replace(head, f"static {linkage} void {v.function}(")
    return re.sub(r"\n    F2C_CALL\([^\n]*\);", "", text) if v.linkage == "F2C_KERNEL" else text


def body(v: View, text: str) -> str:
    """The text of a kernel without its comment and its name."""
    code = text[text.index("*/") + 2:]
    return re.sub(rf"\b{v.function}(?=_|\b)", "@", code)


def used_keys(v: View, text: str) -> tuple[str, ...]:
    """Which tables of a kernel a text names."""
    return tuple(k for k in v.table if re.search(rf"\b{v.table[k]}\b", text))


@dataclass(frozen=True, slots=True)
class Core:
    """The innermost loops of a kernel, which are a function of their own, and the functions that finish its elements."""

    kernel: int
    name: str
    suffix: str                     # what makes the name, behind that of the kernel
    functions: Mapping[str, str]    # texts by name, the core's last; they name no constants that may be parameters
    constants: Mapping[str, int]    # of the core
    numbers: Mapping[str, int]      # factors and offsets in the others, in order, under names that are those of no constant
    bounds: tuple[tuple[int, int] | None, ...]      # of its loops, in order

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(self.functions.values())


def share_cores(model: str, views: Sequence[View], texts: list[str]) -> list[str]:
    """Texts of shared cores, by the first kernel that needs each; `texts` then call them.

    Cores that call others of their kernel wait until those are shared.
    """
    out, names = [""] * len(texts), set[str]()
    while groups := _alike(views, texts):
        for group in groups:
            first = group[0]
            name = next(n for n in _names(f"{model}{first.suffix}") if n not in names)
            names.add(name)
            free = [k for k in first.constants if len({core.constants[k] for core in group}) > 1]
            lifts = _lifts(group)
            out[first.kernel] += f"{_shared(views[first.kernel], group, name, free, lifts)}\n"
            for core in group:
                v = views[core.kernel]
                values = {k: core.constants[k] for k in free} | {new: core.numbers[k] for k, new in lifts.items() if k == new}
                tables = "".join(f"{v.table[k]}, " for k in used_keys(v, core.text))
                numbers = "".join(f"/* {k.lower()} */ {n}, " for k, n in values.items())
                texts[core.kernel] = _borrower(v, texts[core.kernel], core, (f"{name}({tables}", numbers))
    return [text.rstrip("\n") + "\n" if text else "" for text in out]


def _alike(views: Sequence[View], texts: Sequence[str]) -> list[list[Core]]:
    """Groups of cores that can be one function."""
    alike: dict[tuple[str, ...], list[Core]] = {}
    for core in (core for i, v in enumerate(views) for core in cores(i, v, texts[i])):
        v = views[core.kernel]
        types = [f"{k} {v.table_ctype[k]}" for k in used_keys(v, core.text)]
        plain = re.sub(r"^/\*.*\*/\n", "", lifted(core, {k: k for k in core.numbers}), flags=re.MULTILINE)
        fixed = [f"{k} {n}" for k, n in core.constants.items() if k not in FREE]
        key = (re.sub(rf"\b{v.function}_", "@_", plain), *types, *fixed, *(k for k in core.constants if k in FREE))
        alike.setdefault(key, []).append(core)
    return [g for g in alike.values() if len(g) > 1]


def _names(name: str) -> Iterator[str]:
    """name, name_b, name_c, ..."""
    yield name
    yield from (f"{name}_{chr(ord('a') + n) if n < 26 else n}" for n in range(1, 10 ** 4))


def cores(kernel: int, v: View, text: str) -> Iterator[Core]:
    """The cores of a kernel that call no others."""
    parts = {m[1]: m[0] for m in FUNCTION.finditer(text)}
    for name, part in parts.items():
        if CORE.search(part) and not any(CORE.search(p) and f"{n}(" in part for n, p in parts.items() if n != name):
            helpers = {n: p for n, p in parts.items() if not CORE.search(p) and n != name and f"{n}(" in part}
            constants = {k: int(n) for line in ENUM.findall(part) for k, n in re.findall(r"(\w+) = (-?\d+)", line)}
            numbers = {f"{'FACTOR' if '* ' in m.string[m.start() - 3:m.start()] else 'OFFSET'}_{i}": int(m[0])
                       for i, m in enumerate(n for p in helpers.values() for n in _numbers(p))}
            functions = helpers | {name: ENUM.sub("", GIVEN.sub("", part))}
            yield Core(kernel, name, name.removeprefix(v.function), functions, constants, numbers, loops.bounds(part))


def _lifts(group: Sequence[Core]) -> dict[str, str]:
    """Numbers that are to be parameters, with the name of the first that is the same in each core of a group."""
    first: dict[tuple[int, ...], str] = {}
    every = {k: tuple(core.numbers[k] for core in group) for k in group[0].numbers}
    return {k: first.setdefault(values, k) for k, values in every.items() if len(set(values)) > 1}


def lifted(core: Core, names: Mapping[str, str]) -> str:
    """The text of a core in which some numbers are parameters of the other functions, and constants where it calls them."""
    left, changed = iter(core.numbers), dict(core.functions)
    for function in [f for f in changed if f != core.name]:
        text, own = _named(changed[function], [names.get(next(left), "") for _ in _numbers(changed[function])])
        given = "".join(f"{k}, " for k in own)
        changed = {f: re.sub(rf"\b{function}\(", f"{function}({given}", part) for f, part in changed.items()}
        declared = "".join(f"int32_t {k.lower()}, " for k in own)
        changed[function] = text.replace(f"{function}(", f"{function}({declared}", 1)
    return "\n".join(changed.values())


def _numbers(text: str) -> list[re.Match[str]]:
    """Where a function has numbers that may be parameters."""
    return [n for f in FINISHED.finditer(text) for n in NUMBER.finditer(text, *f.span())]


def _named(text: str, names: Sequence[str]) -> tuple[str, list[str]]:
    """A function with parameters of these names in the places of its numbers ("": none), and which it then has."""
    for m, name in reversed(list(zip(_numbers(text), names, strict=True))):
        text = text[:m.start()] + (name.lower() or m[0]) + text[m.end():]
    return text, [k for k in dict.fromkeys(names) if k]


def _shared(v: View, group: Sequence[Core], name: str, free: Collection[str], lifts: Mapping[str, str]) -> str:
    """A core of its own name, with tables, the constants `free` and the numbers `lifts` as parameters."""
    first = group[0]
    bounds = [None if any(b is None for b in each) else (min(b[0] for b in each if b), max(b[1] for b in each if b))
              for each in zip(*(core.bounds for core in group), strict=True)]
    text = with_parameters(v, lifted(first, lifts), tuple(v.table), set(first.functions))
    core = {m[1]: m[0] for m in FUNCTION.finditer(text)}[first.name]
    kept = [f"{k} = {n}" for k, n in first.constants.items() if k not in free]
    lines = "".join(f"    enum {{ {', '.join(kept[i:i + 6])} }};\n" for i in range(0, len(kept), 6))
    changed = loops.annotated(core, bounds).replace("\n{\n", f"\n{{\n{lines}", 1)
    free = [*free, *dict.fromkeys(lifts.values())]
    for k in free:
        changed = re.sub(rf"\b{k}\b", k.lower(), changed)
    tables = sum(f"t_{k}," in core for k in v.table)
    given = "".join(f"int32_t {k.lower()}, " for k in free)
    declared = rf"\b({first.name}\((?:const \w+ \*restrict t_\w+, ){{{tables}}}(?:const \w+ \*w, )?)"
    changed = re.sub(declared, rf"\1{given}", changed, count=1)
    users = f"Shared by {len(group)} steps. */" if len(group) > 1 else "*/"
    changed = re.sub(r"^(/\*.*)\*/$", rf"\1{users}", changed, count=1, flags=re.MULTILINE)
    text = text.replace(core, changed)
    for function in first.functions:
        own = name if function == first.name else f"{name}{function.removeprefix(v.function)}"
        text = re.sub(rf"\b{function}\b", own, text)
    return text


def _borrower(v: View, text: str, core: Core, call: tuple[str, str]) -> str:
    """A kernel that calls a shared core, which has `call` around a stream of weights; what only its own core needed is gone."""
    for gone in reversed(list(core.functions)):
        parts = {m[1]: m[0] for m in FUNCTION.finditer(text)}
        if gone == core.name or (gone in parts and not any(f"{gone}(" in p for n, p in parts.items() if n != gone)):
            text = text.replace(f"{parts[gone]}\n", "")
    stream = r"(&\w+\[[^]]*\], )" if re.search(rf"\b{core.name}\(const \w+ \*w,", core.text) else "()"
    return re.sub(rf"\b{core.name}\({stream}", lambda m: f"{call[0]}{m[1]}{call[1]}", text)


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
