"""Groups of reductions, products and elementwise operators as one kernel; see _program.py."""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from fuse2c.ir.types import COMPUTE, DType
from fuse2c.kernels import fp, reals, tiling
from fuse2c.op import Call, Contraction, Kernel, Lookup, Op, Reads, Regroup, Remap, Spec
from fuse2c.ops import _effort, _program
from fuse2c.ops._program import Item, Program

BLOCK = 4       # products that are computed at a time: what is loaded of the row serves all of them
WIDE = 8        # the same on a core with an FPU, by a function
TIMES = {"f2c_reals_row_times_8": reals.NEEDS, "f2c_row_times_8": fp.NEEDS}       # it, and what it needs


@dataclass(frozen=True, slots=True)
class Ref:
    """Where the elements of a tensor lie, for a loop over the axes of another one that it broadcasts to."""

    memory: str                                 # the tensor in memory
    strides: tuple[int, ...]                    # a stride for each axis
    offset: int = 0
    maps: tuple[tuple[int, tuple[int, ...], int], ...] = ()     # (axis, input index of each output index, stride)
    index: str = ""                             # of a lookup: the tensor of indices


def ref(p: Program, t: str, rank: int) -> Ref:
    """The reference to a tensor that lies in memory, or to a movement of one."""
    item = p.items.get(t)
    if item is not None and t not in p.stored and t not in p.results:
        return _moved(p, item, rank)
    t = p.hosts.get(t, t)
    kind, missing = p.graph.type(t), rank - len(p.shape(t))
    strides = row_strides(p, t) if t in p.rows else kind.strides
    return Ref(t, (0,) * missing + tuple(0 if n == 1 else s for n, s in zip(kind.shape, strides, strict=True)))


def row_strides(p: Program, t: str) -> tuple[int, ...]:
    """A stored row holds its elements in logical order."""
    strides, step = [0] * len(p.shape(t)), 1
    for axis in reversed(range(len(strides))):
        if axis not in p.outer:
            strides[axis], step = step, step * p.shape(t)[axis]
    return tuple(strides)


def _moved(p: Program, item: Item, rank: int) -> Ref:
    source, y = item.node.inputs[0], item.y
    missing = rank - len(p.shape(y))
    if isinstance(item.form, Regroup):
        strides = tuple(0 if n == 1 else s for n, s in zip(p.shape(y), row_strides(p, y), strict=True))
        return Ref(source, (0,) * missing + strides)
    if isinstance(item.form, Lookup):
        kind, axes = p.graph.type(source), len(p.shape(item.node.inputs[1]))
        return Ref(source, (0,) * (missing + axes) + kind.strides[1:], index=item.node.inputs[1])
    assert isinstance(item.form, Remap)
    base = ref(p, source, len(p.shape(y)))
    moved, offset, maps = list(base.strides), base.offset, []
    for axis, found in enumerate(item.form.maps):
        steps = set(np.diff(np.asarray(found, np.int64)).tolist())
        if len(steps) > 1:
            maps.append((axis + missing, tuple(found), moved[axis]))
            moved[axis] = 0
        elif len(found):
            offset += found[0] * moved[axis]
            moved[axis] *= steps.pop() if steps else 0
    return Ref(base.memory, (0,) * missing + tuple(moved), offset, tuple(maps))


def program(c: Call) -> Program:
    """The program of a call."""
    assert c.group is not None
    return _program.build(c.group.graph, (c.group.node,), c.group.node.outputs)


def times_rows(c: Call) -> str:
    """All products are of float32 rows that lie in one piece, times constant matrices, of eight columns or more."""
    p = program(c)
    products = [i for i in p.order if isinstance(i.form, Contraction)]
    for item in products:
        a, b = item.node.inputs[:2]
        if p.graph.type(a).dtype != DType.F32 or packed(p, b) is None or ref(p, a, len(p.shape(item.y))).strides[-1] != 1:
            return "a product of other rows than float32 in one piece, or with a matrix that is not constant"
    return "" if any(p.shape(i.y)[-1] >= WIDE for i in products) else f"no product with {WIDE} columns"


def spec(c: Call, block: int = BLOCK, times: str = "") -> Spec:
    """The program and its tables; `times`: the C function of whole blocks of products."""
    assert c.group is not None
    p, node = program(c), c.group.node
    tables = {key: np.asarray(values, np.int32) for values, key in map_tables(p).items()}
    for port, t in enumerate(node.inputs):
        value, product = p.graph.data(t), packed(p, t)
        if value is not None and value.size > 1:
            tables[f"c{port}"] = value.reshape(-1) if product is None else pack(product, value, block)
    ctype = next((COMPUTE[p.graph.type(t).dtype] for t in p.rows), "")
    axis = row_axis(p)
    flags = {"program": p, "scratch_ctype": ctype, "row_axis": axis, "block": block, "times": times}
    if axis is None:
        return Spec(tables=tables, scratch=p.scratch, by_rows=False, flags=flags, effort=_effort.of(p))
    reads = {i: found for i, t in enumerate(node.inputs) if (found := rows_read(p, t, axis)) is not None}
    return Spec(tables=tables, scratch=p.scratch, rows=p.shape(p.results[0])[axis], reads=reads, flags=flags,
                effort=_effort.of(p))


def row_axis(p: Program) -> int | None:
    """The outer axis along which the result lies in rows, if all operators work along it, row by row."""
    y = p.graph.type(p.results[0])
    if len(p.results) > 1 or len(y.shape) < 3 or len(y.memory_axes) < 2:
        return None
    axis, rank = y.memory_axes[0], len(y.shape)
    if any(isinstance(i.form, Lookup) for i in p.order):
        return None
    if axis not in p.outer or any(len(p.shape(i.y)) != rank for i in p.order):
        return None
    for i in p.order:
        # A movement by a constant distance has its offset in the address; rows in a ring need the row itself.
        if isinstance(i.form, Remap) and list(i.form.maps[axis]) != list(range(y.shape[axis])) \
                and axis not in {a for a, _, _ in ref(p, i.y, rank).maps}:
            return None
    return axis


def rows_read(p: Program, t: str, axis: int) -> Reads | None:
    """Rows of an operand for each row of the result; None where they are no rows, or not taken in order."""
    kind, rank = p.graph.type(t), len(p.shape(p.results[0]))
    own = axis - (rank - len(kind.shape))
    if p.graph.data(t) is not None or own < 0 or kind.memory_axes[:1] != (own,):
        return None
    rows = p.shape(p.results[0])[axis]
    users = [i for i in p.order if t in i.node.inputs]
    maps = {tuple(i.form.maps[axis]) for i in users if isinstance(i.form, Remap)}
    straight = any(not isinstance(i.form, Remap) for i in users)
    if straight:
        maps.add(tuple(range(rows)))
    if len(maps) != 1 or any(isinstance(i.form, Lookup) for i in users) or any(
            isinstance(i.form, Contraction) and i.node.inputs.index(t) == 1 for i in users):
        return None
    (found,) = maps
    return (found, found) if list(found) == sorted(found) and max(found) < kind.shape[own] else None


def map_tables(p: Program) -> dict[tuple[int, ...], str]:
    """Index maps that are no arithmetic progression, and the keys of their tables."""
    found = {m for item in p.order if isinstance(item.form, Remap)
             for _, m, _ in ref(p, item.y, len(p.shape(item.y))).maps}
    return {m: f"map{i}" for i, m in enumerate(sorted(found))}


def packed(p: Program, t: str) -> Item | None:
    """The product that a constant matrix is packed for, if products alone read it, in one orientation."""
    value, users = p.graph.data(t), [i for i in p.order if t in i.node.inputs]
    products = [i for i in users if isinstance(i.form, Contraction) and i.node.inputs.index(t) == 1]
    alike = len({i.form for i in products}) == 1 and len(products) == len(users)
    return products[0] if value is not None and value.ndim == 2 and alike else None


def pack(item: Item, w: np.ndarray, block: int) -> np.ndarray:
    """A constant matrix in the order in which the products read it: blocks of columns, row by row."""
    assert isinstance(item.form, Contraction)
    return tiling.pack(w if item.form.transposed else w.T, block)


OP = Op(name="LoopNest", infer=lambda c: [], reference=lambda c, *x: [], layout="strided",
        kernels=(*(Kernel("loop_nest", partial(spec, block=WIDE, times=times), when=times_rows, needs=needs)
                   for times, needs in TIMES.items()), Kernel("loop_nest", spec)),
        docs="reductions, products and what is between them")
