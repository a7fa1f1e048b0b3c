"""The function that finishes one element: accumulator (or loaded operands) -> epilogue -> stored value, as C text."""
from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fuse2c.ir.graph import Graph, Node
from fuse2c.ir.types import COMPUTE, CTYPE, DType
from fuse2c.kernels import mve
from fuse2c.kernels.scalars import literal
from fuse2c.kernels.tail import channel_vector
from fuse2c.kernels.tiling import Store
from fuse2c.op import Scalar, port_name
from fuse2c.ops import _fours, all_ops
from fuse2c.ops.elementwise import Load
from fuse2c.plan import Plan, Step

HALF = {DType.F16: "f16", DType.BF16: "bf16"}
BYTES = {DType.I8: "s8", DType.U8: "u8"}
WORDS = {DType.F32: "f2c_reals"}        # the type of four elements, if not of four integers


def row_start(plan: Plan, tensor: str, variable: str, stride: str) -> str:
    """The C index at which row `variable` of a tensor starts: in a ring, modulo its rows."""
    ring = plan.rings.get(plan.owner(tensor))
    return f"({variable} % {ring}) * {stride}" if ring else f"{variable} * {stride}"


def loaded(expr: str, dtype: DType) -> str:
    """An element in memory, in its compute type."""
    return f"f2c_from_{HALF[dtype]}({expr})" if dtype in HALF else expr


def stored(expr: str, dtype: DType) -> str:
    """A value of the compute type as it lies in memory."""
    return f"f2c_to_{HALF[dtype]}({expr})" if dtype in HALF else f"({CTYPE[dtype]}){expr}"


def wrapped(expr: str, dtype: DType) -> str:
    """A result cut to what its element type can hold: halves rounded, narrow integers modulo 2**bits."""
    if dtype in HALF:
        return f"f2c_round_{HALF[dtype]}({_bare(expr)})"
    if dtype in (DType.I8, DType.U8, DType.I16, DType.U16):
        return f"({CTYPE[dtype]})({_bare(expr)})"
    return expr


@dataclass(frozen=True, slots=True)
class Out:
    """The finishing function of a kernel, and how to call it."""

    ctype: str
    params: str
    lines: tuple[str, ...]
    name: str
    uses_channel: bool
    uses_at: bool
    operands: tuple[str, ...]       # C names of the tail's operands
    words: tuple[str, ...] = ()     # the same for four elements that are adjacent in memory, if there is such a form
    words_params: str = ""
    words_ctype: str = "f2c_words"
    shift: int = 0                  # what those are still to be shifted right by, rounded half up

    def call(self, values: str, channel: str, at: str, row: str, more: tuple[str, ...] = ()) -> str:
        """The C expression that finishes `values`; `row` ends the names of pointers to rows; `more` are addresses."""
        args = [values] + [channel] * self.uses_channel + [at] * self.uses_at + [f"{o}{row}" for o in self.operands]
        args = [a for a in (*args, *more) if a]
        return f"{self.name}({', '.join(args)})"


@dataclass(frozen=True, slots=True)
class Open:
    """An expression that is still to be limited to a range."""

    tensor: str
    expr: str
    limits: tuple[int, int]
    comment: str
    limited: Mapping[tuple[int, int], str]      # expressions that need no limiting, by range
    words: str = ""
    shifted: tuple[str, int] = ("", 0)


@dataclass(slots=True)
class Chain:
    """Collects the lines of one finishing function. The last expression stays open while clamps can narrow it."""

    graph: Graph
    step: Step
    tables: dict[str, np.ndarray] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    operands: dict[str, str] = field(default_factory=dict)      # tensor -> C name of the pointer
    value: dict[str, str] = field(default_factory=dict)         # tensor -> C expression of its element
    opened: Open | None = None
    count: int = 0                                              # temporaries so far
    words: list[str] | None = field(default_factory=list)       # the lines for four elements; None: there is no such form
    four: dict[str, str] = field(default_factory=dict)          # tensor -> C expression of four neighbouring elements
    shift: int = 0                                              # what the last of them is still to be shifted right by

    def temporary(self) -> str:
        """A new C name."""
        self.count += 1
        return f"v{self.count - 1}"

    def alone(self, tensor: str) -> bool:
        """Whether one operator of the chain reads a tensor, and nobody else."""
        readers = sum(n.inputs.count(tensor) for n in self.step.node.parts)
        return readers == 1 and tensor not in self.step.node.outputs

    def add(self, node: Node, scalar: Scalar, args: Mapping[str, str], key: str) -> None:
        """The next operator of the chain."""
        tensor = node.outputs[0]
        if scalar.clamp is not None and self.opened is not None and node.inputs[0] == self.opened.tensor \
                and self.alone(self.opened.tensor):
            low, high = scalar.clamp
            limits = (min(max(self.opened.limits[0], low), high), min(max(self.opened.limits[1], low), high))
            self.opened = replace(self.opened, tensor=tensor, limits=limits, comment=f"{self.opened.comment}, {node.op}")
            return
        self.close()
        values = {port: self.operand(t) if t in self.graph.tensors else t for port, t in args.items()}
        expr = self.expand(scalar.expr, scalar, values, key)
        four = {port: self.four.get(t, "") for port, t in args.items() if f"{{{port}}}" in scalar.words}
        words = self.expand(scalar.words, scalar, four, key) if all(four.values()) else ""
        if scalar.limits is not None:
            limited = {limits: self.expand(text, scalar, values, key) for limits, text in scalar.limited.items()}
            shifted = self.expand(scalar.shifted[0], scalar, four, key) if words else ""
            self.opened = Open(tensor, expr, scalar.limits, node.op, limited, words, (shifted, scalar.shifted[1]))
        else:
            self.put(tensor, expr if node.quantised else wrapped(expr, self.graph.type(tensor).dtype), node.op)
            self.put_words(tensor, words, node.op)

    def close(self, last: bool = False) -> None:
        """Print the open expression, limited to its range; who stores the last words shifts and limits them."""
        if self.opened is not None:
            o, self.opened = self.opened, None
            clamped = f"f2c_clamp_s32({_bare(o.expr)}, {o.limits[0]}, {o.limits[1]})"
            self.put(o.tensor, o.limited.get(o.limits, clamped), o.comment)
            stored_as_is = last and o.limits == self.graph.type(o.tensor).dtype.range
            limited = o.words if stored_as_is or not o.words else f"f2c_words_clamp({o.words}, {o.limits[0]}, {o.limits[1]})"
            if stored_as_is and o.shifted[0]:
                limited, self.shift = o.shifted
            self.put_words(o.tensor, limited, o.comment)

    def put_words(self, tensor: str, expr: str, comment: str) -> None:
        """The same for four elements; the first operator without such a form ends the attempt."""
        if self.words is None or not expr:
            self.words = None
            return
        name = self.four[tensor] = self.value[tensor]
        self.words.append(f"const {WORDS.get(self.graph.type(tensor).dtype, 'f2c_words')} {name} = {expr};  /* {comment} */")

    def put(self, tensor: str, expr: str, comment: str) -> None:
        """One more temporary."""
        name = self.temporary()
        ctype = COMPUTE[self.graph.type(tensor).dtype]
        self.lines.append(f"const {ctype} {name} = {_bare(expr)};  /* {comment} */")
        self.value[tensor] = name

    def operand(self, tensor: str) -> str:
        """The C expression of a tensor's element at the same place as the result."""
        if tensor in self.value:
            return self.value[tensor]
        data, t = self.graph.data(tensor), self.graph.type(tensor)
        if data is not None and data.size == 1:
            number = literal(data.reshape(-1)[0], t.dtype)
            self.four |= {tensor: f"f2c_reals_same({number})"} if t.dtype in WORDS else {}
            return number
        if data is not None:
            key = f"c{len([k for k in self.tables if k.startswith('c')])}"
            self.tables[key] = data.reshape(-1)
            element = f"{self.step.function}_{key}[{self.step.spec.channel}]"
            self.four |= {tensor: loaded_words(f"&{element}", t.dtype)} if t.dtype in WORDS else {}
            self.value[tensor] = loaded(element, t.dtype)
            return self.value[tensor]
        name = self.operands.setdefault(tensor, f"r{len(self.operands) + 1}")
        y, op = self.graph.type(self.step.node.outputs[0]), all_ops()[self.step.node.op]
        vector = channel_vector(op, y, t)
        element = f"{name}[{self.step.spec.channel if vector else 'at'}]"
        if t.dtype in WORDS or (t.dtype in BYTES and not vector):
            self.four[tensor] = loaded_words(f"&{element}", t.dtype)
        return loaded(element, t.dtype)

    def expand(self, text: str, scalar: Scalar, args: Mapping[str, str], key: str) -> str:
        """An expression of a scalar with its operands and tables filled in."""
        for name, values in scalar.tables.items():
            table = f"{name}{key}"
            self.tables[table] = values
            text = text.replace(f"{{t_{name}}}", f"{self.step.function}_{table}")
        for port, value in args.items():
            text = text.replace(f"{{{port}}}", value)
        return text


def out(graph: Graph, step: Step, name: str = "out") -> tuple[Out | None, dict[str, np.ndarray], tuple[str, ...]]:
    """(finishing function or None if there is nothing to do, its tables, the tail's operand tensors)."""
    chain = Chain(graph, step)
    params, rest = _head(chain)
    for i, node in enumerate(rest, len(step.node.parts) - len(rest)):       # the anchor's own tables have no number
        chain.add(node, _fours.scalar(graph, node), {"abc"[p]: t for p, t in enumerate(node.inputs) if t}, f"{i}" if i else "")
    chain.close(last=True)
    final, *more = step.node.outputs
    operands = tuple(chain.operands)
    if not chain.lines:
        return None, chain.tables, operands
    body, ctype = "\n".join(chain.lines), CTYPE[graph.type(final).dtype]
    many = [p.replace("int32_t ", "f2c_words ").replace("float ", "f2c_reals ") for p in params]
    uses_at, uses_channel = "[at]" in body, bool(re.search(rf"\b{step.spec.channel}\b", body))
    more_params = [f"int32_t {step.spec.channel}"] * uses_channel + ["int32_t at"] * uses_at
    more_params += [f"const {CTYPE[graph.type(t).dtype]} *{chain.operands[t]}" for t in operands]
    params += more_params
    if "further" in step.spec.flags:
        params += [f"{CTYPE[graph.type(t).dtype]} *y{i}" for i, t in enumerate(more, 2)]
        chain.lines += [f"*y{i} = {stored(chain.value[t], graph.type(t).dtype)};" for i, t in enumerate(more, 2)]
    lines = (*chain.lines, f"return {stored(chain.value[final], graph.type(final).dtype)};")
    words = (*chain.words, f"return {chain.four[final]};") if chain.words and _by_fours(step) else ()
    return Out(ctype, ", ".join(params), lines, f"{step.function}_{name}", uses_channel, uses_at,
               tuple(chain.operands.values()), words, ", ".join(many + more_params),
               WORDS.get(graph.type(final).dtype, "f2c_words"), chain.shift), chain.tables, operands


def _by_fours(step: Step) -> bool:
    """Whether the kernel finishes four neighbouring elements at once, if it can."""
    tiles = [t for found in step.spec.flags.get("tiles", {}).values() for t in found]
    return "fours" in step.spec.flags or any(t.quads for t in tiles)


def _head(chain: Chain) -> tuple[list[str], tuple[Node, ...]]:
    """Parameters of the function, and the nodes still to print."""
    graph, step = chain.graph, chain.step
    parts = step.node.parts
    loads: tuple[Load, ...] | None = step.spec.flags.get("loads")
    if loads is not None:
        params = []
        for load in loads:
            t, port = step.node.inputs[load.port], port_name(all_ops()[step.node.op].ports, load.port)
            if load.literal:
                chain.value[t] = load.literal
                chain.four |= {t: f"f2c_reals_same({load.literal})"} if graph.type(t).dtype in WORDS else {}
            elif t not in chain.value:
                params.append(f"{COMPUTE[graph.type(t).dtype]} {port}")
                chain.value[t] = chain.four[t] = port
        return params, parts
    first = parts[0].outputs[0]
    acc = step.spec.acc or COMPUTE[graph.type(first).dtype]
    chain.value[first] = chain.four["acc"] = chain.four[first] = "acc"
    if step.spec.finish is not None:
        chain.value["acc"] = "acc"
        chain.add(parts[0], step.spec.finish, {"a": "acc"}, "")
    return [f"{acc} acc"], parts[1:]


def _bare(expr: str) -> str:
    """Without one pair of parentheses around the whole."""
    if not (expr.startswith("(") and expr.endswith(")")):
        return expr
    depth = 0
    for i, ch in enumerate(expr):
        depth += (ch == "(") - (ch == ")")
        if depth == 0 and i < len(expr) - 1:
            return expr
    return expr[1:-1]


def store(o: Out | None, s: Store, by_rows: bool, values: str | None = None, more: tuple[str, ...] = ()) -> str:
    """The C statement that finishes and stores one element; `values` replaces the store's own value."""
    value, row = s.value if values is None else values, s.row if by_rows else ""
    return f"y{row}[{s.at}] = {o.call(value, s.channel, s.at, row, more) if o else value};"


def finished(o: Out | None, tile: mve.Tile, dtype: DType) -> tuple[str, ...]:
    """The C statements that finish and store the sums of a tile: four at once where there is such a form."""
    if not tile.quads or (not o.words if o is not None else dtype not in WORDS):
        return (*tile.spill, *(store(o, lane, True) for lane in tile.lanes))
    if o is None:
        return tuple(f"f2c_reals_store(&y_row[{q.at}], {q.value});" for q in tile.quads)
    ctype = WORDS.get(dtype, "f2c_words")
    values = [f"const {ctype} {q.name} = {in_words(o, Store(q.value, q.channel, q.at))};" for q in tile.quads]
    return (*values, *(stored_words(o, f"&y_row[{q.at}]", q.name, dtype) for q in tile.quads))


def in_words(o: Out, s: Store) -> str:
    """The C expression that finishes four neighbouring elements."""
    return replace(o, name=f"{o.name}4").call(s.value, s.channel, s.at, "_row")


def stored_words(o: Out, address: str, value: str, dtype: DType) -> str:
    """The C statement that stores four finished elements."""
    if dtype in WORDS:
        return f"f2c_reals_store({address}, {value});"
    if o.shift:
        return f"f2c_words_shift_to_{BYTES[dtype]}({address}, {value}, {o.shift});"
    return f"f2c_words_to_{BYTES[dtype]}({address}, {value});"


def loaded_words(address: str, dtype: DType) -> str:
    """Four neighbouring elements in memory."""
    return f"f2c_reals_at({address})" if dtype == DType.F32 else f"f2c_words_from_{BYTES[dtype]}({address})"
