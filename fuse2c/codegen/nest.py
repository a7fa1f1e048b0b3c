"""The C text of a loop nest's program: row pointers, then pass by pass. It decides nothing; see ops/_program.py."""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from fuse2c.codegen.scalar import Chain, loaded, row_start, stored
from fuse2c.ir.types import COMPUTE, CTYPE, TensorType
from fuse2c.kernels import nesting, tiling
from fuse2c.kernels.nesting import Access
from fuse2c.op import Accumulator, Contraction, Join, Reduction, Regroup, bind, port_name
from fuse2c.ops import all_ops
from fuse2c.ops._program import Item, Pass, Program
from fuse2c.ops.loop_nest import WIDE, Ref, map_tables, packed, ref
from fuse2c.plan import Plan, Step

STEP = "    "


@dataclass(frozen=True, slots=True)
class Text:
    """What the template prints: the outer loops with what is inside, and further tables by key."""

    body: str
    tables: dict[str, np.ndarray]


@dataclass(slots=True)
class Writer:
    """Collects the lines of one kernel. Indices are filled in when all accesses of a loop are known."""

    plan: Plan
    step: Step
    p: Program = field(init=False)
    row_axis: int | None = field(init=False)                        # the outer axis that the caller steps through
    chain: Chain = field(init=False)
    names: dict[str, str] = field(default_factory=dict)             # tensor in memory -> C name
    pointers: dict[Ref, str] = field(default_factory=dict)          # outer part of a reference -> row pointer
    accesses: list[tuple[Access, tuple[tuple[int, tuple[int, ...], int], ...]]] = field(default_factory=list)
    numbers: int = 0

    def __post_init__(self) -> None:
        self.p, self.row_axis = self.step.spec.flags["program"], self.step.spec.flags["row_axis"]
        self.chain = Chain(self.p.graph, self.step)
        node, ports = self.step.node, all_ops()[self.step.node.op].ports
        for i, t in enumerate(node.inputs):
            constant = f"c{i}" in self.step.spec.tables
            self.names[t] = f"{self.step.function}_c{i}" if constant else port_name(ports, i)
        self.names |= {t: f"y{i + 1 if i else ''}" for i, t in enumerate(node.outputs)}
        self.names |= {t: f"row{i}" for i, t in enumerate(self.p.rows)}
        for i, item in enumerate(self.p.items.values()):
            self.names[f"key {item.y}"] = f"{i}" if i else ""

    def text(self) -> Text:
        """All of it."""
        lines = [line for item in self.p.before for line in self.number(item)]
        for found in self.p.passes:
            lines += self.loop(found)
            lines += [line for item in found.after for line in self.number(item)]
        head, outer = self.heads()
        body = [outer.head, *(f"{outer.indent}{line}" if line else "" for line in (*head, *lines)), outer.tail]
        if self.row_axis is not None:
            body = [f"{STEP}for (int32_t oy = row; oy < row_end; ++oy) {{", *body, f"{STEP}}}"]
        return Text("\n".join(text for text in body if text), self.chain.tables)

    # --- where elements lie ---

    def heads(self) -> tuple[list[str], nesting.Nest]:
        """Declarations of the row pointers, and the outer loops."""
        p, axes = self.p, tuple(a for a in self.p.outer if a != self.row_axis)
        first = p.graph.type(p.results[0])
        order = tuple(int(i) for i in np.argsort([-first.strides[a] for a in axes], kind="stable"))
        extents = TensorType(first.dtype, tuple(first.shape[a] for a in axes), order=order)
        accesses, at = list[Access](), list[tuple[int, list[tuple[int, str, int]]]]()
        for r in self.pointers:
            own = Access(tuple(r.strides[a] for a in axes), r.offset)
            found = []
            for axis, values, stride in (m for m in r.maps if m[0] != self.row_axis):
                found.append((len(accesses) + 1, self.map_name(values), stride))
                accesses.append(Access(tuple(int(a == axis) for a in axes)))
            at.append((len(accesses), found))
            accesses.append(own)
            if r.index:
                accesses.append(self.index_access(r, axes))
        nest = nesting.nest(extents, accesses, indent=STEP if self.row_axis is None else STEP * 2)
        lines = []
        for (r, name), (own_at, maps) in zip(self.pointers.items(), at, strict=True):
            index = joined(plus(nest.index[own_at + 1], [(nest.index[k], m, s) for k, m, s in maps]), self.row(r))
            lines += self.declaration(r, name, index, nest.index[own_at + 2] if r.index else "")
        for t, start in p.rows.items():
            lines.append(f"{COMPUTE[p.graph.type(t).dtype]} *const {self.names[t]} = &scratch[{start}];")
        return lines, nest

    def row(self, r: Ref) -> str:
        """Where the row starts that the caller is at."""
        if self.row_axis is None:
            return "0"
        moved = next(((self.map_name(values), stride) for axis, values, stride in r.maps if axis == self.row_axis), None)
        variable, stride = (f"{moved[0]}[oy]", moved[1]) if moved else ("oy", r.strides[self.row_axis])
        return row_start(self.plan, r.memory, variable, str(stride)) if stride else "0"

    def declaration(self, r: Ref, name: str, at: str, index_at: str) -> list[str]:
        """A pointer to the row of a tensor."""
        t = self.p.graph.type(r.memory)
        const = "" if r.memory in self.p.results else "const "
        if r.index:
            found = f"f2c_index({self.names[r.index]}[{index_at}], {t.shape[0]})"
            at = f"({found} * {t.strides[0]})" + ("" if at == "0" else f" + {at}")
        return [f"{const}{CTYPE[t.dtype]} *const {name} = &{self.names[r.memory]}[{at}];"]

    def index_access(self, r: Ref, axes: tuple[int, ...]) -> Access:
        """How a lookup's indices lie along the outer axes; they are as many as the strides before the slice's own."""
        kind = self.p.graph.type(r.index)
        missing = len(r.strides) - (len(self.p.shape(r.memory)) - 1) - len(kind.shape)
        strides = (0,) * missing + tuple(0 if n == 1 else s for n, s in zip(kind.shape, kind.strides, strict=True))
        return Access(tuple(strides[a] if a < len(strides) else 0 for a in axes))

    def pointer(self, r: Ref) -> str:
        """The row pointer of a reference; a stored row is its own."""
        if r.memory in self.p.rows:
            return self.names[r.memory]
        outer = Ref(r.memory, tuple(s if a in self.p.outer else 0 for a, s in enumerate(r.strides)), r.offset,
                    tuple(m for m in r.maps if m[0] in self.p.outer), r.index)
        if not any(outer.strides) and not outer.offset and not outer.maps and not outer.index:
            return self.names[r.memory]
        base = "w" if r.memory not in self.step.node.inputs and r.memory not in self.p.results else self.names[r.memory]
        used = [n for n in self.pointers.values() if n.startswith(f"{base}_row")]
        return self.pointers.setdefault(outer, f"{base.rpartition('__')[2]}_row{len(used) or ''}")

    def element(self, t: str, rank: int, skip: tuple[int, ...] = ()) -> str:
        """`pointer[index]` of a tensor in memory, the index still open; axes in `skip` are left to an inner loop."""
        r = ref(self.p, t, rank)
        inner = [a for a in range(rank) if a not in self.p.outer]
        offset = r.offset if r.memory in self.p.rows else 0
        own = Access(tuple(0 if a in skip else r.strides[a] for a in inner), offset)
        self.accesses.append((own, tuple((inner.index(a), v, s) for a, v, s in r.maps if a in inner)))
        return f"{self.pointer(r)}[\x01{len(self.accesses) - 1}\x01]"

    def map_name(self, values: tuple[int, ...]) -> str:
        """The C name of an index map."""
        return f"{self.step.function}_{map_tables(self.p)[values]}"

    # --- what is computed ---

    def ensure(self, t: str, rank: int, here: bool = False) -> None:
        """Make the element of a tensor known: in a variable already, loaded, or computed; `here`: not stored so far."""
        c, p = self.chain, self.p
        data = p.graph.data(t)
        if t in c.value or t == "" or (c.opened is not None and c.opened.tensor == t):
            return
        if data is not None and data.size == 1:
            return
        item = p.items.get(t)
        if item is None or (t in p.stored and not here) or not item.computed:
            text = self.element(t, rank)
            c.close()
            name = c.temporary()
            kind = p.graph.type(t).dtype
            value = text if ref(p, t, rank).memory in p.rows else loaded(text, kind)
            c.lines.append(f"const {COMPUTE[kind]} {name} = {value};")
            c.value[t] = name
            return
        self.elementwise(item)

    def elementwise(self, item: Item) -> None:
        """One elementwise operator."""
        node, rank = item.node, len(self.p.shape(item.y))
        for t in node.inputs:
            self.ensure(t, rank)
        scalar = all_ops()[node.op].scalar
        assert scalar is not None
        self.chain.add(node, scalar(bind(self.p.graph, node)), {"abc"[i]: t for i, t in enumerate(node.inputs) if t},
                       self.names[f"key {item.y}"])

    def number(self, item: Item) -> list[str]:
        """An operator on numbers of the row."""
        self.chain.lines, self.accesses = [], []
        if isinstance(item.form, Regroup):
            self.chain.value[item.y] = self.chain.value[item.node.inputs[0]]
        else:
            self.elementwise(item)
        self.chain.close()
        lines = self.chain.lines + self.stores(item)
        one = nesting.nest(TensorType(self.p.graph.type(item.y).dtype, self.p.inner(item.y)), [a for a, _ in self.accesses])
        return self.filled(lines, one)

    def stores(self, item: Item) -> list[str]:
        """Where a value goes: a result, a stored row, or nowhere."""
        t, p = item.y, self.p
        if t not in p.results and t not in p.stored:
            return []
        self.chain.close()
        kind = p.graph.type(t).dtype
        value = self.chain.value[t]
        return [f"{self.element(t, len(p.shape(t)))} = {stored(value, kind) if t in p.results else value};"]

    def loop(self, found: Pass) -> list[str]:
        """One pass: accumulators, loops, what is left of the accumulators."""
        c, products = self.chain, [i for i in found.items if isinstance(i.form, Contraction)]
        outside = dict(c.value)
        c.lines, self.accesses = [], []
        starts, ends, after = list[str](), list[str](), dict[str, str]()
        for n, item in enumerate(products):
            self.product(item, f"c{n}[u]")
        for item in found.items:
            if item.form is None:
                if item.y in self.p.results or item.y in self.p.stored:
                    self.ensure(item.y, len(self.p.shape(item.y)), here=True)
            elif isinstance(item.form, Join):
                self.join(item, item.form)
                continue
            elif isinstance(item.form, Reduction) and self.p.is_number(item.y):
                after[item.y] = self.reduce(item, item.form, starts, ends)
            elif isinstance(item.form, Reduction):
                self.reduce_inside(item, item.form)
            if item.y not in after:
                c.lines += self.stores(item)
        c.close()
        if products:
            lines = self.blocks(found, products, c.lines)
        else:
            nest = nesting.nest(TensorType(self.p.graph.type(found.items[0].y).dtype, found.inner, order=self.order(found)),
                              self.all_accesses(len(found.inner)), indent="", letter="j")
            lines = [*nest.head.split("\n"), *(f"{nest.indent}{line}" for line in self.filled(c.lines, nest)),
                     *nest.tail.split("\n")]
        c.value = outside | after
        c.lines, self.accesses = [], []
        for item in found.items:
            if item.y in after and item.y in self.p.results:
                ends += self.filled(self.stores(item), nesting.nest(TensorType(self.p.graph.type(item.y).dtype, ()), []))
        return [*starts, *lines, *ends]

    def join(self, item: Item, form: Join) -> None:
        """Stores an element of one of the tensors that are joined."""
        x, p, rank = item.node.inputs[0], self.p, len(self.p.shape(item.y))
        self.ensure(x, rank)
        self.chain.close()
        at = self.element(item.y, rank)
        step = ref(p, item.y, rank).strides[form.axis] * form.start
        kind = p.graph.type(item.y).dtype
        value = self.chain.operand(x)
        self.chain.lines.append(f"{at.replace(']', f' + {step}]') if step else at} = "
                                f"{stored(value, kind) if item.y in p.results else value};")

    def order(self, found: Pass) -> tuple[int, ...]:
        """Loops follow the storage order of the first access that moves along all axes."""
        size = [n for n in found.inner if n > 1]
        for access, _ in self.accesses:
            if sum(s != 0 for s in access.strides) >= len(size):
                return tuple(int(i) for i in np.argsort([-s for s in access.strides], kind="stable"))
        return ()

    def all_accesses(self, rank: int) -> list[Access]:
        """The accesses of a loop, each map's coordinate behind its own."""
        found = []
        for own, maps in self.accesses:
            found.append(own)
            found += [Access(tuple(int(a == axis) for a in range(rank))) for axis, _, _ in maps]
        return found

    def filled(self, lines: list[str], nest: nesting.Nest) -> list[str]:
        """Lines with their indices."""
        texts, at = [], 1
        for _, maps in self.accesses:
            own = nest.index[at] if at < len(nest.index) else "0"
            texts.append(plus(own, [(nest.index[at + 1 + k], self.map_name(v), s) for k, (_, v, s) in enumerate(maps)]))
            at += 1 + len(maps)
        result = []
        for line in lines:
            for i, text in enumerate(texts):
                line = line.replace(f"\x01{i}\x01", text)
            result.append(line)
        return result

    # --- reductions and products ---

    def reduce(self, item: Item, form: Reduction, starts: list[str], ends: list[str]) -> str:
        """A number of the row; returns its variable."""
        x = item.node.inputs[0]
        self.ensure(x, len(self.p.shape(x)))
        self.chain.close()
        names = self.accumulators(form.accumulators, starts)
        names |= {"v": self.chain.operand(x), "i": "j0"}
        self.chain.lines += [f"{names[f'acc{k}']} = {a.update.format(**names)};" for k, a in enumerate(form.accumulators)]
        self.numbers += 1
        kind = COMPUTE[self.p.graph.type(item.y).dtype]
        ends.append(f"const {kind} r{self.numbers} = {form.end.format(**names)};  /* {item.node.op} */")
        return f"r{self.numbers}"

    def reduce_inside(self, item: Item, form: Reduction) -> None:
        """An element of a result of several: loops over the reduced axes of what lies in memory."""
        x, p = item.node.inputs[0], self.p
        r, kind = ref(p, x, len(p.shape(x))), p.graph.type(x).dtype
        nest = nesting.nest(TensorType(kind, tuple(p.shape(x)[a] for a in form.axes)),
                          [Access(tuple(r.strides[a] for a in form.axes))], indent="", letter="q")
        text = self.element(x, len(p.shape(x)), skip=form.axes).replace("]", f" + {nest.index[1]}]")
        names = self.accumulators(form.accumulators, self.chain.lines) | {"v": "v", "i": "q0"}
        value = text if r.memory in p.rows else loaded(text, kind)
        self.chain.lines += [*nest.head.split("\n"), f"{nest.indent}const {COMPUTE[kind]} v = {value};"]
        self.chain.lines += [f"{nest.indent}{names[f'acc{k}']} = {a.update.format(**names)};"
                             for k, a in enumerate(form.accumulators)]
        self.chain.lines += nest.tail.split("\n")
        self.chain.put(item.y, form.end.format(**names), item.node.op)

    def accumulators(self, found: tuple[Accumulator, ...], lines: list[str]) -> dict[str, str]:
        """Declares the accumulators; their names by placeholder."""
        names = {}
        for k, a in enumerate(found):
            self.numbers += 1
            names[f"acc{k}"] = f"s{self.numbers}"
            lines.append(f"{a.ctype} s{self.numbers} = {a.start};")
        return names

    def product(self, item: Item, value: str) -> None:
        """What the body of a block knows of a product: the sum, with the bias."""
        if len(item.node.inputs) > 2 and item.node.inputs[2]:
            self.ensure(item.node.inputs[2], len(self.p.shape(item.y)))
            value = f"({value} + {self.chain.operand(item.node.inputs[2])})"
        self.chain.put(item.y, value, item.node.op)

    def blocks(self, found: Pass, products: list[Item], body: list[str]) -> list[str]:
        """Loops over blocks of columns, in each the sums, and then the body for every column."""
        columns = TensorType(self.p.graph.type(products[0].y).dtype, found.inner)
        nest = nesting.nest(columns, self.all_accesses(len(found.inner)), indent="", letter="j")
        body = self.filled(body, nest)
        column = [f"{STEP * 2}const int32_t j0 = block + u;"] * any("j0" in line for line in body)
        lines = []
        for b in tiling.blocks(prod(found.inner), self.step.spec.flags["block"]):
            lines.append(f"for (int32_t block = {b.first}; block < {b.end}; block += {b.size}) {{")
            for n, item in enumerate(products):
                lines += [f"{STEP}{line}" for line in self.sums(item, n, b.size)]
            lines += [f"{STEP}for (int32_t u = 0; u < {b.size}; ++u) {{", *column,
                      *(f"{STEP * 2}{line}" for line in body), f"{STEP}}}", "}"]
        return lines

    def sums(self, item: Item, n: int, size: int) -> list[str]:
        """Products of the row with the columns of a block."""
        p, (a, b) = self.p, item.node.inputs[:2]
        rank, depth, kind = len(p.shape(item.y)), p.shape(a)[-1], p.graph.type(a).dtype
        left, step = self.vector(a, rank)
        base, row, column = self.matrix(item, b, rank, depth, size)
        times = self.step.spec.flags["times"]
        if times and size == WIDE:
            return [f"{COMPUTE[kind]} c{n}[{size}];", f"{times}({left}, &{base}, {depth}, c{n});", f"F2C_MACS({depth * size});"]

        def index(i: str, k: int) -> str:
            return i if k == 1 else f"({i} * {k})"
        terms = " ".join(f"c{n}[{u}] += a * w{n}[{index('k', row)}{f' + {u * column}' if u else ''}];" for u in range(size))
        return [f"{COMPUTE[kind]} c{n}[{size}] = {{ 0 }};", f"const {CTYPE[kind]} *const w{n} = &{base};",
                "F2C_UNROLL", f"for (int32_t k = 0; k < {depth}; ++k) {{",
                f"{STEP}const {COMPUTE[kind]} a = {left}[{index('k', step)}];", f"{STEP}{terms}", "}",
                f"F2C_MACS({depth * size});"]

    def vector(self, a: str, rank: int) -> tuple[str, int]:
        """(pointer to the row that is multiplied, distance of its elements)."""
        r = ref(self.p, a, rank)
        name = self.pointer(r)
        return (name if not r.offset or r.memory not in self.p.rows else f"({name} + {r.offset})"), r.strides[-1]

    def matrix(self, item: Item, b: str, rank: int, depth: int, size: int) -> tuple[str, int, int]:
        """(first element of the block, distance of rows, of columns)."""
        assert isinstance(item.form, Contraction)
        if packed(self.p, b):
            return f"{self.names[b]}[block * {depth}]", size, 1
        r = ref(self.p, b, rank)
        name = self.pointer(replace(r, strides=(*r.strides[:-2], 0, 0)))
        column, row = r.strides[-2:] if item.form.transposed else r.strides[:-3:-1]
        return f"{name}[block * {column}]", row, column


def joined(*terms: str) -> str:
    """A sum of indices."""
    return " + ".join(t for t in terms if t != "0") or "0"


def plus(index: str, maps: list[tuple[str, str, int]]) -> str:
    """An index with what maps add to it: (coordinate, table, stride)."""
    terms = [] if index == "0" and maps else [index]
    return " + ".join(terms + [f"({table}[{at}] * {stride})" for at, table, stride in maps])
