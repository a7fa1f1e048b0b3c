"""One storage order for each tensor; movements that then move nothing become views.

Graph inputs and outputs are row-major, as the caller has them. Spatial operators write channels last (any kernel can
write any order, so an output of the model is written as the caller wants it), or row by row and channel by channel, if
only kernels read it that do best with that. Elementwise operators keep the order
of their operand. A copy is inserted only where a kernel needs row-major input and does not find it.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import TensorType
from fuse2c.op import bind, layout
from fuse2c.ops import all_ops
from fuse2c.ops.movement import Shape
from fuse2c.passes.select import refuse
from fuse2c.plan import Decision, Plan


def run(plan: Plan) -> Plan:
    """Orders, views, and copies where nothing else helps."""
    state = _State(plan)
    for node in plan.graph.nodes:
        state.visit(node)
    graph = replace(plan.graph, nodes=tuple(state.nodes), tensors=state.tensors)
    return replace(plan, graph=graph, views=state.views, decisions=plan.decisions + tuple(state.log))


class _State:
    """The graph under reconstruction."""

    def __init__(self, plan: Plan) -> None:
        self.g = g = plan.graph
        self.tensors = dict(g.tensors)
        self.nodes: list[Node] = []
        self.views: dict[str, str] = {}
        self.log: list[Decision] = []
        self.claimed: set[str] = set(g.inputs) | set(g.outputs)     # roots whose bytes belong to the caller
        self.wanted, self.for_windows, self.planar = row_major_wanted(g), windows_want(g), planar_wanted(plan)

    def visit(self, node: Node) -> None:
        """Choose the orders of a node's outputs."""
        kind = layout(all_ops()[node.op], bind(self.g, node))
        if kind == "row-major":
            node = replace(node, inputs=tuple(self.row_major(t) if t else t for t in node.inputs))
        elif kind == "spatial" and not self.type(node.inputs[0]).batch_first:
            # The kernel runs once an image, from a pointer that moves on by a whole image.
            node = replace(node, inputs=(self.row_major(node.inputs[0]), *node.inputs[1:]))
        for y in node.outputs:
            fixed = y in self.g.outputs
            if kind == "view" and self.as_view(node, y):
                continue
            if not fixed:
                self.set_order(y, self.order(node, kind, y))
        self.nodes.append(node)

    def order(self, node: Node, kind: str, y: str) -> tuple[int, ...]:
        """The order in which a tensor that nobody else constrains is written."""
        rank = len(self.type(y).shape)
        if y in self.wanted:
            return ()
        if kind == "spatial":
            return (0, 2, 1, 3) if y in self.planar else (0, *range(2, rank), 1)
        if kind in ("same", "strided"):
            like = [self.type(t) for t in node.inputs if t and self.tensors[t].data is None
                    and len(self.type(t).shape) == rank]
            if like and (found := max(like, key=lambda t: (t.count, t.order != ())).order):
                return found
            if rank in (3, 4) and y in self.for_windows:
                return (0, *range(2, rank), 1)
        return ()

    def as_view(self, node: Node, y: str) -> bool:
        """Make y share its input's bytes, if its elements lie there in some storage order of y."""
        x = node.inputs[0]
        order = view_order(bind(replace(self.g, tensors=self.tensors), node).type(0), self.type(y), node)
        if order is None or self.tensors[x].data is not None:
            return False
        fixed = y in self.g.outputs
        seen = replace(self.type(y), order=order)
        if fixed and (self.root(x) in self.claimed or not seen.row_major):
            return False
        self.set_order(y, () if fixed else order)
        self.views[y] = x
        if fixed:
            self.claimed.add(self.root(x))
        self.log.append(Decision("layout", f"{node.op} {node.name}", True, "a view: nothing is moved"))
        return True

    def row_major(self, t: str) -> str:
        """The tensor itself if it lies in row-major order, else a copy that does."""
        own = self.type(t)
        if self.tensors[t].data is not None or own.row_major:
            return t
        name = replace(self.g, tensors=self.tensors).fresh(f"{t}.rows")
        self.tensors[name] = Tensor(name, replace(own, order=()))
        self.nodes.append(Node(name, "Reshape", (t,), (name,), Shape(own.shape)))
        self.log.append(Decision("layout", f"copy of {t}", True, "its reader needs row-major order"))
        return name

    def root(self, t: str) -> str:
        """The tensor that owns the bytes of `t`."""
        while t in self.views:
            t = self.views[t]
        return t

    def type(self, t: str) -> TensorType:
        """The type as decided so far."""
        return self.tensors[t].type

    def set_order(self, t: str, order: tuple[int, ...]) -> None:
        """Decide a tensor's order."""
        self.tensors[t] = replace(self.tensors[t], type=replace(self.type(t), order=order))


def row_major_wanted(g: Graph) -> set[str]:
    """Outputs of the model, and what only elementwise operators read on the way to one: all in the caller's order."""
    wanted = set(g.outputs)
    for n in reversed(g.nodes):
        for t in n.inputs:
            users = g.users(t) if t and g.data(t) is None else ()
            if users and t not in g.outputs and all(_regroups(g, u) for u in users):
                wanted.add(t)
            if users and t not in g.outputs and all(
                    all_ops()[u.op].layout == "same" and all(y in wanted and g.type(y).shape == g.type(t).shape
                                                             for y in u.outputs) for u in users):
                wanted.add(t)
    return wanted


def windows_want(g: Graph) -> set[str]:
    """What only convolutions and pools read, at once or behind elementwise operators."""
    found: set[str] = set()
    for n in reversed(g.nodes):
        for y in n.outputs:
            users = g.users(y)
            if users and y not in g.outputs and all(all_ops()[u.op].layout == "spatial" or (
                    all_ops()[u.op].layout in ("same", "strided") and found.issuperset(u.outputs)) for u in users):
                found.add(y)
    return found


def planar_wanted(plan: Plan) -> set[str]:
    """What only kernels read that go along the rows of one channel, at once or behind elementwise operators."""
    g, found = plan.graph, set[str]()
    for n in reversed(g.nodes):
        for y in n.outputs:
            users = g.users(y)
            if users and y not in g.outputs and len(g.type(y).shape) == 4 and all(_reads_planes(plan, u) or (
                    all_ops()[u.op].layout == "same" and found.issuperset(u.outputs)
                    and sum(g.data(t) is None for t in u.inputs if t) == 1) for u in users):
                found.add(y)
    return found


def _reads_planes(plan: Plan, node: Node) -> bool:
    """Whether the kernel that a node will have does so."""
    call = bind(plan.graph, node)
    return next((k.planar for k in all_ops()[node.op].kernels if not refuse(k, plan.target.processor, call)), False)


def _regroups(g: Graph, reshape: Node) -> bool:
    """Whether a Reshape of a spatial tensor is a view of row-major order, but none of channels last."""
    x, y = g.type(reshape.inputs[0]), g.type(reshape.outputs[0])
    if reshape.op != "Reshape" or len(x.shape) < 3:
        return False
    last = replace(x, order=(0, *range(2, len(x.shape)), 1))
    return view_order(last, y, reshape) is None


def view_order(x: TensorType, y: TensorType, node: Node) -> tuple[int, ...] | None:
    """The storage order of y in which it has the same bytes as x, or None.

    Decided on axis strides alone: Transpose permutes them, Reshape must split and merge axes that are neighbours.
    """
    if node.op == "Transpose":
        perm = node.attrs.perm                                                              # type: ignore[attr-defined]
        return tuple(perm.index(axis) for axis in x.storage)
    strides = _reshaped_strides(x, y.shape)
    if strides is None:
        return None
    return tuple(sorted(range(len(y.shape)), key=lambda axis: (-strides[axis], y.shape[axis] != 1, axis)))


def _reshaped_strides(x: TensorType, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of a reshape that moves nothing, found by numpy on an array without data; None if it must copy."""
    view = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), x.shape, x.strides)
    if x.count == 0:
        return None
    try:
        probe = view.view()
        probe.shape = shape
    except AttributeError:
        return None
    return probe.strides


