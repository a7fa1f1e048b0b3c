"""A kernel for every node: the most special one that applies. Refusals are decisions."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fuse2c.errors import NoKernel
from fuse2c.ir.graph import Graph, Node
from fuse2c.op import Call, Group, Kernel, Work, bind
from fuse2c.ops import all_ops
from fuse2c.passes._rows import height
from fuse2c.plan import Decision, Plan, Step
from fuse2c.target import Processor


def run(plan: Plan) -> Plan:
    """Steps in graph order; views have none."""
    steps, log = [], list[Decision]()
    for node in plan.graph.nodes:
        if all(t in plan.views for t in node.outputs):
            continue
        steps.append(chosen(plan, node, plan.target.processor, log))
    return replace(plan, steps=tuple(steps), decisions=plan.decisions + tuple(log))


def anchor_call(plan: Plan, node: Node) -> Call:
    """The call that the kernel serves: the first node of the body, writing in the order of the last."""
    g = plan.graph
    call, last = bind(g, node.parts[0]), g.type(node.outputs[0])
    final = tuple(replace(t, order=last.order, within=last.within) for t in call.y)
    rows = height(g.type(plan.root(node.inputs[0]))) if node.inputs else 1
    return replace(call, y=final, group=Group(g, node), rows=rows)


def chosen(plan: Plan, node: Node, processor: Processor, log: list[Decision]) -> Step:
    """The step of a node, with its kernel for a processor. Raises NoKernel."""
    call, op = anchor_call(plan, node), all_ops()[node.op]
    refusals = []
    for kernel in (k for k in op.kernels if not k.offer):
        why = refuse(kernel, processor, call)
        if not why:
            log.append(Decision("select", f"{node.name}: {kernel.name}", True, "the most special that applies"))
            spec = kernel.spec(call)
            return Step(node, kernel, spec, "", total_work(plan.graph, node, spec.macs), processor.name)
        if f"{kernel.name}: {why}" not in refusals:     # a kernel may be listed for several sizes of its tiles
            refusals.append(f"{kernel.name}: {why}")
            log.append(Decision("select", f"{node.name}: {kernel.name}", False, why))
    raise NoKernel(f"no kernel runs this node on {plan.target.name}", node=node.name, op=node.op,
                   detail=tuple(refusals), hint="float32 and int8/uint8 with scales are supported")


def alternatives(plan: Plan, step: Step) -> Iterator[Step]:
    """The same step with each more general kernel that applies."""
    call, kernels = anchor_call(plan, step.node), all_ops()[step.node.op].kernels
    processor = plan.target.processors[step.processor].processor
    parts = any(t is not None and t.within for t in (*call.x, *call.y))     # kept where they lie: see embed.py
    behind = next(i for i, k in enumerate(kernels) if k is step.kernel) + 1
    for kernel in kernels[behind:]:
        if not kernel.offer and (kernel.strided or not parts) and not refuse(kernel, processor, call):
            yield served(plan, step, kernel, call)


def served(plan: Plan, step: Step, kernel: Kernel, call: Call) -> Step:
    """The same step with another kernel, which does not refuse its call (`anchor_call`)."""
    spec = kernel.spec(call)
    return replace(step, kernel=kernel, spec=spec, work=total_work(plan.graph, step.node, spec.macs))


def refuse(kernel: Kernel, processor: Processor, call: Call) -> str:
    """Why a kernel cannot serve a call on a processor; empty if it can."""
    missing = sorted(kernel.needs - set(processor.features))
    return f"the core lacks {', '.join(missing)}" if missing else kernel.when(call)


def total_work(g: Graph, node: Node, macs: int | None) -> Work:
    """A fused node does the arithmetic of its body; `macs` are those of its first node, if the kernel knows better."""
    parts = [all_ops()[n.op].work(bind(g, n)) for n in node.parts]
    if macs is not None:
        parts[0] = replace(parts[0], macs=macs)
    return Work(sum(p.macs for p in parts), sum(p.alu for p in parts))
