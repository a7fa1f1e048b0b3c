"""Every fusion fuse2c knows, in order of preference. Add an entry; nothing else changes."""
from __future__ import annotations

from dataclasses import replace
from math import prod

from fuse2c.fusion.dsl import Fuse, Group, made, operands, results
from fuse2c.ir.graph import Graph, Node
from fuse2c.kernels.tail import channel_vector
from fuse2c.op import Contraction, Reduction, Regroup, bind, layout, no_nest
from fuse2c.ops import all_ops
from fuse2c.ops._program import NoNest, build

POINTERS, PARTS = 14, 96      # of one fused loop


def is_scalar(node: Node) -> bool:
    """Whether the whole of a node computes one element from one element of each operand."""
    return all(all_ops()[n.op].scalar is not None for n in node.parts)


def computable(g: Graph, node: Node) -> str:
    """Whether there is C for each operator, with these types."""
    for n in node.parts:
        call = bind(g, n)
        refusals = [k.when(call) for k in all_ops()[n.op].kernels]
        if refusals and all(refusals):
            return refusals[0]
    return ""


# --- epilogues: an anchor and the elementwise operators behind it ---

def finishes(g: Graph, group: Group, node: Node) -> str:
    """An elementwise operator on the anchor's elements, with operands that the finishing function can read."""
    anchor = group[0]
    if not is_scalar(node):
        return f"{node.op} is not elementwise"
    have, want = g.type(anchor.outputs[0]).shape, g.type(node.outputs[0]).shape
    if have != want or len(node.outputs) != 1:
        return f"the result {want} has another shape than the anchor's {have}"
    op, y = all_ops()[anchor.op], g.type(anchor.outputs[0])
    for t in (t for n in node.parts for t in n.inputs if t and t not in made((*group, node))):
        x = g.type(t)
        constant = g.data(t) is not None
        if not ((constant and x.count == 1) or channel_vector(op, y, x) or (x.shape == y.shape and not constant)):
            return f"{t} is neither one number, nor one a channel, nor of the result's shape"
    return computable(g, node)


def one_result(g: Graph, group: Group) -> str:
    """One tensor leaves the group, and its last node writes it."""
    found = results(g, group)
    outside = [t for t in found if t not in group[-1].outputs]
    return f"{outside[0]} is also read by {_readers(g, group, outside[0])}" if outside else ""


def _readers(g: Graph, group: Group, tensor: str) -> str:
    names = [u.name for u in g.users(tensor) if u not in group]
    return ", ".join(names) or "the caller"


def aligned_operands(g: Graph, group: Group) -> str:
    """Operands of the result's shape lie in memory exactly as the result does."""
    y, inside = g.type(group[-1].outputs[0]), made(group)
    parts = [*group[0].parts[1:], *(p for n in group[1:] for p in n.parts)]
    for t in (t for n in parts for t in n.inputs if t and t not in inside and g.data(t) is None):
        x = g.type(t)
        if x.shape == y.shape and x.memory_axes != y.memory_axes:
            return f"{t} lies in another order"
    return ""


def writable_order(g: Graph, group: Group) -> str:
    """The anchor's kernel can write the result in the order in which it lies."""
    y, kind = g.type(group[-1].outputs[0]), layout(all_ops()[group[0].op], bind(g, group[0].parts[0]))
    if kind == "row-major" and not y.row_major:
        return "the anchor writes row-major order only"
    return "" if kind != "spatial" or y.batch_first else "the images of the batch do not follow one another"


# --- loop nests: reductions, products and the elementwise operators around them, row by row ---

def nests(g: Graph, group: Group, node: Node) -> str:
    """An operator that can be inside of a loop nest; a movement must move what the group computes, or an operand."""
    inside = made(group)
    for part in node.parts:
        op, call = all_ops()[part.op], bind(g, part)
        form = None if op.scalar else op.nest(call)
        if isinstance(form, str):
            return form
        if isinstance(form, Regroup) and part.inputs[0] not in inside:
            return "a reshape of an operand"
        source = g.producer(part.inputs[0])
        if isinstance(form, Reduction) and all_ops()[part.op].layout == "spatial" and source is not None \
                and all_ops()[source.op].layout == "spatial":
            return "a pool takes the rows of a convolution as they come"
    if is_scalar(node) and _between_windows(g, node):
        return "its rows go from one convolution to the next"
    return computable(g, node) if is_scalar(node) else ""


def _between_windows(g: Graph, node: Node) -> bool:
    """Whether an elementwise operator reads a whole result of a convolution, and only convolutions read its own."""
    def windows(n: Node | None) -> bool:
        return n is not None and all_ops()[n.op].layout == "spatial"
    shape, users = g.type(node.outputs[0]).shape, [u for t in node.outputs for u in g.users(t)]
    return bool(users) and all(map(windows, users)) and any(
        windows(g.producer(t)) and g.type(t).shape == shape for t in node.inputs if t)


def is_program(g: Graph, group: Group) -> str:
    """Row by row, with numbers and single rows between its passes; and more than a product with its epilogue."""
    try:
        p = build(g, group, results(g, group))
    except NoNest as e:
        return str(e)
    forms = [i.form for i in p.order if i.form is not None]
    products = [i for i in p.order if isinstance(i.form, Contraction)]
    if all(isinstance(f, Contraction) for f in forms) and len(products) < 2 and not any(
            i.node.inputs[0] in p.items for i in products):
        return "one product with its epilogue, or no reduction: other kernels are better at it"
    return ""


def nestable() -> frozenset[str]:
    """Operators that loop nests are made for: those with a form of their own."""
    return frozenset(o.name for o in all_ops().values() if o.nest is not no_nest)


def fits_core(g: Graph, group: Group) -> str:
    """Few enough pointers for the registers of a small core, and code that stays one readable function."""
    pointers = len([t for t in operands(group) if g.data(t) is None]) + len(results(g, group))
    if pointers > POINTERS:
        return f"{pointers} operands and results, at most {POINTERS}"
    parts = sum(len(n.parts) for n in group)
    return f"{parts} operators, at most {PARTS}" if parts > PARTS else ""


# --- elementwise: any number of elementwise operators over one iteration space ---

def alongside(g: Graph, group: Group, node: Node) -> str:
    """Elementwise, over the same elements; a smaller result is computed again for each element that it meets."""
    if not is_scalar(node):
        return f"{node.op} is not elementwise"
    every = (*group, node)
    widest = widest_shape(g, every)
    for n in every:
        shape = g.type(n.outputs[0]).shape
        if not repeats(shape, widest):
            return f"the results {shape} and {widest} are of two iteration spaces"
        if prod(shape) != prod(widest) and any(all_ops()[p.op].costly(bind(g, p)) for p in n.parts):
            return f"{n.outputs[0]} would be computed again for each element of {widest}"
    return computable(g, node)


def repeats(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether a tensor broadcasts to a shape."""
    return len(shape) <= len(whole) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(whole), strict=False))


def widest_shape(g: Graph, group: Group) -> tuple[int, ...]:
    """The shape that the results of a group broadcast to."""
    return max((g.type(t).shape for n in group for t in n.outputs), key=lambda shape: (prod(shape), len(shape)))


def full_results(g: Graph, group: Group) -> str:
    """All tensors that leave the group have its whole shape."""
    shapes = {g.type(t).shape for t in results(g, group)}
    return "" if len(shapes) == 1 and shapes == {widest_shape(g, group)} else "the results differ in shape"


def anchors() -> frozenset[str]:
    """Operators whose kernels take an epilogue."""
    return frozenset(o.name for o in all_ops().values() if o.anchor)


def scalars() -> frozenset[str]:
    """Operators that can be an epilogue."""
    return frozenset(o.name for o in all_ops().values() if o.scalar)


EPILOGUE = Fuse("epilogue", frozenset(), finishes, (one_result, aligned_operands, writable_order),
                pays="the anchor's result stays in a register: one write, one read and one launch less")


def rules() -> tuple[Fuse, ...]:
    """All fusions."""
    return (
        replace(EPILOGUE, seeds=anchors() - scalars() - nestable()),
        Fuse("loop-nest", nestable() | scalars(), nests, (fits_core, is_program), into="LoopNest", upwards=True,
             pays="row by row: what is between its operators is a number or a row"),
        replace(EPILOGUE, seeds=anchors() - scalars()),
        Fuse("elementwise", scalars(), alongside, (fits_core, full_results), into="Elementwise", upwards=True,
             pays="one loop: every element is loaded once, intermediates stay in registers"),
    )
