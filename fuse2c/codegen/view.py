"""Step -> View: every value that a kernel template may print, frozen. No template computes."""
from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuse2c.codegen import scalar
from fuse2c.codegen.nest import Writer
from fuse2c.codegen.scalar import Out, row_start
from fuse2c.ir.types import COMPUTE, CTYPE, DType
from fuse2c.kernels.copy_rows import RowPart
from fuse2c.kernels.tail import channel_vector
from fuse2c.kernels.tiling import Lane, Tile
from fuse2c.op import bind, port_name
from fuse2c.ops import all_ops
from fuse2c.plan import Plan, Step
from fuse2c.price import Traffic, traffic


@dataclass(frozen=True, slots=True)
class Operand:
    """A pointer parameter: its C type and name; `row` is the C index at which a row of it starts."""

    ctype: str
    name: str
    row: str = "0"

    @property
    def below(self) -> str:
        """The same for the row behind row `oy`."""
        return re.sub(r"\boy\b", "(oy + 1)", self.row)


@dataclass(frozen=True, slots=True)
class Param:
    """A pointer parameter of the kernel function and the tensor (or scratch) that the caller passes."""

    declaration: str
    tensor: str             # "" for scratch
    written: bool = False


@dataclass(frozen=True)
class View:
    """All that a kernel template may see as `k`; values of `flags` are attributes too."""

    function: str
    comment: tuple[str, ...]
    params: str
    args: tuple[Param, ...]
    constants: tuple[str, ...]
    x: Operand
    y: Operand
    tail: tuple[Operand, ...]
    further: tuple[Operand, ...]        # more outputs of an elementwise kernel
    acc: str
    out: Out | None
    upper_out: Out | None               # of 256 times a sum, where a kernel collects such
    table: Mapping[str, str]            # name -> C identifier
    table_ctype: Mapping[str, str]
    tables: Mapping[str, np.ndarray]    # C identifier -> values
    flags: Mapping[str, Any]
    by_rows: bool
    rows: int
    images: int
    inlined: bool                       # a step of a kernel that consists of several
    linkage: str                        # F2C_KERNEL, F2C_INLINE, F2C_SHARED: see f2c_config.h
    callee: str                         # the function to call, with `tables_first` before its other arguments
    traffic: Traffic
    tables_first: tuple[str, ...] = ()

    @property
    def only_words(self) -> bool:
        """Whether elements are finished by fours and never one by one."""
        tiles = [t for found in self.flags.get("tiles", {}).values() for t in found]
        if self.out is None or not self.out.words:
            return False
        return all(t.quads for t in tiles) and not self.flags.get("rest", 0)

    @property
    def alone(self) -> str:
        """The qualifier of the result's row in a further function of the kernel: no operand of the tail can be the same."""
        return "" if self.tail else "restrict "

    @property
    def moving(self) -> tuple[str, ...]:
        """Pointers to rows that lie in memory like the result's, which itself is the first."""
        return ("y_row", *(f"{r.name}_row" for r in self.tail if r.row != "0"))

    @property
    def tail_args(self) -> str:
        """What a further function of the kernel is passed for the tail: pointers to rows, behind other arguments."""
        return "".join(f", {r.name}_row" for r in self.tail)

    @property
    def tail_params(self) -> str:
        """The parameters for `tail_args`."""
        return "".join(f", const {r.ctype} *{r.name}_row" for r in self.tail)

    @property
    def below_args(self) -> str:
        """`tail_args` of the row behind row `oy`."""
        return "".join(f", {r.name}_next" for r in self.tail)

    @property
    def below_params(self) -> str:
        """The parameters for `below_args`."""
        return "".join(f", const {r.ctype} *{r.name}_next" for r in self.tail)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["flags"][name]
        except KeyError:
            raise AttributeError(name) from None


def view(plan: Plan, step: Step) -> View:
    """The view of a step."""
    g, spec = plan.graph, step.spec
    inlined = any(plan.steps[i] is step for i in plan.inlined)
    nest = Writer(plan, step).text() if "program" in spec.flags else None
    out, tables, tail = scalar.out(g, step) if nest is None else (None, nest.tables, ())
    upper = None
    if "upper" in spec.flags:
        upper, _, _ = scalar.out(g, replace(step, spec=replace(spec, finish=spec.flags["upper"])), "out_upper")
    tables = {**spec.tables, **tables}
    call = bind(g, step.node.parts[0])
    x, y = call.type(0), g.type(step.node.outputs[0])
    args = _params(plan, step, tail)
    names = {key: f"{step.function}_{key}" for key in tables}
    rows = ["int32_t row", "int32_t row_end"] if spec.by_rows else []
    # The tail's operands lie in memory like the output, row for row.
    stride = "Y_SH" if "Y_SH" in spec.constants else str(spec.flags.get("row_stride", 0))
    return View(
        function=step.function, comment=_comment(plan, step), args=args,
        params=", ".join([p.declaration for p in args] + rows),
        constants=tuple(f"enum {{ {', '.join(f'{k} = {v}' for k, v in chunk)} }};" for chunk in _chunks(spec.constants)),
        x=Operand(CTYPE[x.dtype], all_ops()[step.node.op].ports[0],
                  row_start(plan, step.node.parts[0].inputs[0], "iy", "X_SH")),
        y=Operand(CTYPE[y.dtype], "y", row_start(plan, step.node.outputs[0], "oy", stride)),
        tail=tuple(Operand(CTYPE[g.type(t).dtype], f"r{i}", "0" if channel_vector(all_ops()[step.node.op], y, g.type(t))
                           else row_start(plan, t, "oy", stride)) for i, t in enumerate(tail, 1)),
        further=tuple(Operand(CTYPE[g.type(t).dtype], f"y{i}", row_start(plan, t, "oy", str(s)))
                      for i, (t, (_, s)) in enumerate(
                          zip(step.node.outputs[1:], spec.flags.get("further", ()), strict=False), 2)),
        acc=spec.acc or COMPUTE[call.y[0].dtype],
        out=out, upper_out=upper, table=names, table_ctype={key: table_ctype(a) for key, a in tables.items()},
        tables={names[key]: a for key, a in tables.items()},
        flags=_flags(plan, step, (out, upper), names) if nest is None else {"nest": nest},
        by_rows=spec.by_rows, rows=spec.rows, images=spec.images,
        inlined=inlined, linkage="F2C_INLINE" if inlined else "F2C_KERNEL", callee=step.function,
        traffic=traffic(plan, step))


def table_ctype(a: np.ndarray) -> str:
    """C type of a constant table."""
    return CTYPE[DType(a.dtype.name)]


def _params(plan: Plan, step: Step, tail: tuple[str, ...]) -> tuple[Param, ...]:
    """The anchor's variable inputs, the tail's operands, the output, scratch."""
    g, op = plan.graph, all_ops()[step.node.op]
    node = step.node if "loads" in step.spec.flags or "program" in step.spec.flags else step.node.parts[0]
    own = _overlapping(plan, step)
    inputs = []
    for i, t in enumerate(node.inputs):
        if "loads" in step.spec.flags and t in node.inputs[:i]:
            continue        # an elementwise kernel loads an operand once
        if t and g.data(t) is None:
            inputs.append((port_name(op.ports, i), t))
    inputs += [(f"r{i}", t) for i, t in enumerate(tail, 1)]
    in_place = any(plan.owner(t) in own for _, t in inputs)
    limit = "" if in_place else "restrict "
    params = [Param(f"const {CTYPE[g.type(t).dtype]} *{limit}{name}", t) for name, t in inputs]
    params += [Param(f"{CTYPE[g.type(t).dtype]} *{limit}y{i + 1 if i else ''}", t, True)
               for i, t in enumerate(step.node.outputs)]
    if step.spec.scratch:
        ctype = step.spec.flags.get("scratch_ctype") or CTYPE[g.type(node.inputs[0]).dtype]
        params.append(Param(f"{ctype} *restrict scratch", "", True))
    return tuple(params)


def _overlapping(plan: Plan, step: Step) -> set[str]:
    """Roots whose bytes the step's outputs share, in whole or in part: pointers to them are not `restrict`."""
    places = {p.name: p for p in plan.places}
    owners = {plan.owner(t) for t in step.node.outputs}
    written = [places[t] for t in owners if t in places]
    return owners | {
        name for name, p in places.items() for w in written if p.offset < w.offset + w.size and w.offset < p.offset + p.size}


def _flags(plan: Plan, step: Step, finishing: tuple[Out | None, Out | None], names: Mapping[str, str]) -> dict[str, Any]:
    """The spec's flags with C text filled in: stores, tile lanes, loads, table names."""
    flags, out = dict(step.spec.flags), finishing[0]
    ports = all_ops()[step.node.op].ports
    if "loads" in flags:
        seen, values, rows, many = set(), [], [], []
        for load in flags.pop("loads"):
            tensor = step.node.inputs[load.port]
            if not load.literal and tensor not in seen:
                seen.add(tensor)
                name = names[load.table] if load.table else port_name(ports, load.port)
                ctype = CTYPE[plan.graph.type(tensor).dtype]
                if load.row_stride:
                    rows.append(Operand(ctype, name, row_start(plan, tensor, "oy", str(load.row_stride))))
                    name = f"{name}_row"
                dtype = plan.graph.type(tensor).dtype
                values.append(scalar.loaded(f"{name}[{load.index}]", dtype))
                many += [scalar.loaded_words(f"&{name}[{load.index}]", dtype)] if "fours" in flags else []
        more = tuple(f"&y{i}_row[{index}]" for i, (index, _) in enumerate(flags.pop("further", ()), 2))
        if "fours" in flags:
            flags["fours"] = (replace(flags["store"], value=", ".join(many)),)
        flags["store"] = scalar.store(out, flags["store"], True, ", ".join(values), more)
        flags["operands"] = tuple(rows)
    elif "store" in flags:
        flags["store"] = scalar.store(out, flags["store"], step.spec.by_rows and not step.spec.over_input)
    if "calls" in flags:
        flags["calls"] = tuple(replace(p, first=_named(p.first, names)) for p in flags["calls"])
    if "tile" in flags:
        flags["tile"] = {key: _lanes(tile, *finishing) for key, tile in flags["tile"].items()}
    if "fours" in flags:
        assert out is not None and out.words, "the kernel's condition promises this form"
        y = "y" if step.spec.over_input else "y_row"
        address, dtype = f"&{y}[{flags['fours'][0].at}]", plan.graph.type(step.node.outputs[0]).dtype
        flags["fours"] = tuple(scalar.in_words(out, s) for s in flags["fours"])
        flags["store_four"] = scalar.stored_words(out, address, flags["fours"][0], dtype)
        flags["sums"] = f"f2c_sums_shift_to_s8(s, {out.shift})" if out.shift else "f2c_sums_to_s8(s)"
    if "tiles" in flags:
        dtype = plan.graph.type(step.node.outputs[0]).dtype
        flags["tiles"] = {key: tuple(replace(t, lines=tuple(_named(line, names) for line in scalar.finished(out, t, dtype)))
                                     for t in tiles) for key, tiles in flags["tiles"].items()}
    own = [port_name(ports, i) for i in range(max(len(ports), len(step.node.inputs)))]
    operands = dict(zip(own, own, strict=True)) | dict(names)
    for key, value in flags.items():
        if isinstance(value, str) and key != "store":
            flags[key] = _named(value, operands)
    if "parts" in flags:
        flags["parts"] = [replace(p, to=_named(p.to, operands), value=_named(p.value, operands),
                                  lines=tuple(_named(line, operands) for line in p.lines)) for p in flags["parts"]]
        flags["parts"] = [replace(p, source=_source(plan, step, p, operands)) if isinstance(p, RowPart) else p
                          for p in flags["parts"]]
    flags["operand"] = operands
    return flags


def _source(plan: Plan, step: Step, part: RowPart, operands: Mapping[str, str]) -> Operand:
    """The operand of a copy of a row; a row is what the part says, modulo the rows of a ring."""
    tensor = step.node.parts[0].inputs[part.port]
    port = port_name(all_ops()[step.node.op].ports, part.port)
    constant = step.spec.tables.get(port)
    ctype = CTYPE[plan.graph.type(tensor).dtype] if constant is None else table_ctype(constant)
    return Operand(ctype, operands[port],
                   row_start(plan, tensor, _named(part.row, operands), str(part.row_stride)))


def _lanes(tile: Tile, out: Out | None, upper: Out | None) -> Tile:
    def finished(lane: Lane) -> Lane:
        return replace(lane, text=scalar.store(upper if lane.upper else out, lane.store, True))
    return replace(tile, blocks=tuple((block, tuple(map(finished, lanes))) for block, lanes in tile.blocks))


def _named(text: str, operands: Mapping[str, str]) -> str:
    """Text with {operand} replaced by its C name: a parameter or a table."""
    return re.sub(r"\{(\w+)\}", lambda m: operands.get(m[1], m[0]), text)


def _comment(plan: Plan, step: Step) -> tuple[str, ...]:
    """What a reader wants to know before the code: origin, shapes, what was fused, work."""
    g, node = plan.graph, step.node
    chain = " > ".join(n.op for n in node.parts)
    shapes = ", ".join(f"{g.type(t).dtype.value} {list(g.type(t).shape)}" for t in node.inputs
                       if t and g.data(t) is None)
    y = g.type(node.outputs[0])
    origin = "; ".join(clean(name) for name in node.origin)
    work = f"{step.work.macs} multiply-accumulates" if step.work.macs else f"{step.work.alu} operations"
    return (f"/* {chain}", f" *   from  {origin}", f" *   {shapes} -> {y.dtype.value} {list(y.shape)}", f" *   {work} */")


def clean(name: str) -> str:
    """A node's name as comment text: printable ASCII, unable to end the comment, not too long."""
    text = "".join(ch if 32 <= ord(ch) < 127 else "?" for ch in name).replace("*/", "* /").replace("/*", "/ *")
    text = text.replace("??", "? ?").replace("\\", "/")
    return text if len(text) <= 90 else f"{text[:60]}...{text[-27:]}"


def _chunks(constants: Mapping[str, int]) -> list[list[tuple[str, int]]]:
    """Enum lines of a readable length."""
    rows: list[list[tuple[str, int]]] = []
    for item in constants.items():
        if not rows or sum(len(f"{k} = {v}, ") for k, v in rows[-1]) > 80:
            rows.append([])
        rows[-1].append(item)
    return rows
