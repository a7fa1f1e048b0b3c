"""What is joined is written where it belongs, what is cut out is read where it lies: Concat and Slice that move nothing.

The producers of a Concat write into parts of its result, the readers of a Slice read a part of its operand: both have the
strides of the whole tensor (`TensorType.within`). A Concat stays in the schedule, as what says when a row is complete.
"""
from __future__ import annotations

from dataclasses import replace

from fuse2c.ir.graph import Graph, Node
from fuse2c.ir.types import TensorType
from fuse2c.kernels.tail import channel_vector
from fuse2c.op import Spec
from fuse2c.ops import all_ops
from fuse2c.ops.movement import Axis, Slices
from fuse2c.passes.select import anchor_call, refuse
from fuse2c.plan import Plan, Step

RULE = "in-place"


def run(plan: Plan) -> Plan:
    """Each Concat and Slice in turn; a refusal is a decision with its reason."""
    if not plan.options.fuse or RULE in plan.options.no_fuse_rules:
        return plan
    ways = {"Concat": (_joined, "its operands are written in place"), "Slice": (_cut, "its readers read in place")}
    for step in plan.steps:
        if step.node.op not in ways or step.node.body:
            continue
        embed, what = ways[step.node.op]
        try:
            plan = embed(plan, step).decide("embed", (f"{RULE} at {step.node.name}", True, what))
        except Refused as e:
            plan = plan.decide("embed", (f"{RULE} at {step.node.name}", False, str(e)))
    return plan


class Refused(Exception):
    """Why a tensor cannot be part of another one."""


def _joined(plan: Plan, concat: Step) -> Plan:
    """The plan in which the operands of a Concat are parts of its result."""
    g, y, attrs = plan.graph, concat.node.outputs[0], concat.node.attrs
    assert isinstance(attrs, Axis)
    if concat.spec.reads and attrs.axis == g.type(y).memory_axes[0] and y not in g.outputs:
        raise Refused("one operand's rows follow the other's: a ring of rows is less than all of them")
    made_by = {t: s for s in plan.steps for t in s.node.outputs}
    begin, changed, begins = 0, list[tuple[Step, str]](), dict[str, tuple[int, ...]]()
    for t in concat.node.inputs:
        maker = made_by.get(t)
        if maker is None or t in g.outputs or g.only_user(t) is None or concat.node.inputs.count(t) > 1:
            raise Refused(f"{t} is the caller's, a constant, or read elsewhere as well")
        changed.append((maker, t))
        begins[t] = tuple(begin if axis == attrs.axis else 0 for axis in range(len(g.type(y).shape)))
        begin += g.type(t).shape[attrs.axis]
    types = {t: replace(g.type(t), order=g.type(y).order, within=g.type(y).shape) for t in concat.node.inputs}
    g = _retyped(g, types)
    done = replace(concat, spec=Spec(rows=concat.spec.rows, reads=concat.spec.reads, along=concat.spec.along,
                                     by_rows=concat.spec.by_rows, flags={"row_stride": 0}, written=True))
    steps = {id(s): _again(plan, g, s) for s, t in changed} | {id(concat): done}
    return replace(plan, graph=g, steps=tuple(steps.get(id(s), s) for s in plan.steps),
                   inlaid={**plan.inlaid, **dict.fromkeys(begins, y)}, begins={**plan.begins, **begins})


def _cut(plan: Plan, cut: Step) -> Plan:
    """The plan in which the readers of a Slice read a part of its operand."""
    g, (x, *_), (y,), attrs = plan.graph, cut.node.inputs, cut.node.outputs, cut.node.attrs
    assert isinstance(attrs, Slices)
    if any(step != 1 for step in attrs.step) or y in g.outputs or g.data(x) is not None or g.type(x).within:
        raise Refused("it goes in steps, or ends at the caller")
    if not g.type(x).batch_first or g.type(x).shape[0] != g.type(y).shape[0]:
        raise Refused("images of a batch are cut")
    readers = [s for s in plan.steps if y in s.node.inputs]
    if any(s.node.parts[0].inputs[0] != y or s.node.inputs.count(y) > 1 or any(
            y in p.inputs for p in s.node.parts[1:]) for s in readers) or len(readers) != len(g.users(y)):
        raise Refused("a reader does not slide over it")
    g = _retyped(g, {y: replace(g.type(y), order=g.type(x).order, within=g.type(x).shape)})
    steps = {id(s): _again(plan, g, s) for s in readers}
    return replace(plan, graph=g, steps=tuple(steps.get(id(s), s) for s in plan.steps if s is not cut),
                   views={**plan.views, y: x}, begins={**plan.begins, y: attrs.start})


def _retyped(g: Graph, types: dict[str, TensorType]) -> Graph:
    return replace(g, tensors={**g.tensors, **{t: replace(g.tensors[t], type=kind) for t, kind in types.items()}})


def _again(plan: Plan, g: Graph, step: Step) -> Step:
    """The same step with other types of its operand or its result; raises Refused if its kernel cannot."""
    if not step.kernel.strided or step.spec.images > 1:
        raise Refused(f"{step.node.name}: {step.kernel.name} takes whole tensors only")
    y = g.type(step.node.outputs[0])
    for t in _finishing(g, step.node):
        if g.data(t) is None and not channel_vector(all_ops()[step.node.op], y, g.type(t)):
            raise Refused(f"{step.node.name} finishes its elements with {t}, which lies like its result")
    call = anchor_call(replace(plan, graph=g), step.node)
    if why := refuse(step.kernel, plan.target.processors[step.processor].processor, call):
        raise Refused(f"{step.node.name}: {step.kernel.name}: {why}")
    return replace(step, spec=step.kernel.spec(call))


def _finishing(g: Graph, node: Node) -> list[str]:
    """Operands of the operators behind the anchor, from outside."""
    inside = {t for n in node.parts for t in n.outputs}
    return [t for n in node.parts[1:] for t in n.inputs if t and t not in inside]
