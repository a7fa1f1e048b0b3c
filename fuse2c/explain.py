"""Why a node of the model was or was not fused, placed, streamed; and which limit or option would change it."""
from __future__ import annotations

import re
from collections.abc import Iterable

from fuse2c.errors import PlanError, did_you_mean, printable
from fuse2c.ir.graph import Node
from fuse2c.ops import all_ops
from fuse2c.passes import select
from fuse2c.plan import Decision, Plan, Step

SHOWN = 160         # characters of a subject or a reason
CHANGES = (     # (stage, pattern of a reason or subject, what would change it)
    ("stream", r"bytes of scratch are live at the peak", "more --ram, or --optimize cycles, gives faster kernels more scratch"),
    ("fuse", r"barrier", "leave --fuse-barrier out"),
    ("fuse", r"another kernel|other reader|more than one|used elsewhere", "a model in which only one node reads the tensor"),
    ("fuse", r"values live in one loop", "a core with more registers, or an operator that keeps fewer numbers"),
    ("fold", r"tie", "--requant float keeps the float definition"),
)


def node(plan: Plan, name: str) -> list[str]:
    """Lines about one node of the model, by its ONNX name or the C name of its step. Raises PlanError for no such node."""
    functions = {s.function: None for s in plan.steps}
    names = {o for s in plan.steps for n in s.node.parts for o in (*n.origin, n.name)}
    if plan.source is not None:
        names |= {n.name for n in plan.source.nodes}
    if name not in functions and name not in names:
        raise PlanError(f"no node called {name!r}", hint=did_you_mean(name, [*functions, *sorted(names - functions.keys())]))
    found = [(i, s) for i, s in enumerate(plan.steps) if name == s.function or name in _known(s)]
    lines = [f"{printable(name, SHOWN)}: " + (
        "computed at compile time, a view of another tensor, or folded into a neighbour" if not found else
                            " > ".join(n.op for n in found[0][1].node.parts))]
    for i, step in found:
        lines += _of_step(plan, i, step)
    related = {name, *(x for _, s in found for x in (*_known(s), s.function))}
    rows = [d for d in plan.decisions if _mentions(d, related)]
    lines += ["  decisions:"] * bool(rows)
    lines += _told(rows, found[0][1].node.parts[0] if found else None)
    cores = [text for _, step in found for text in _cores(plan, step)]
    lines += [f"  would change it: {text}" for text in dict.fromkeys([*cores, *_changes(rows), *_limits(plan)])]
    return lines


def _limits(plan: Plan) -> Iterable[str]:
    """The next schedules on either side of the chosen one: what limit or objective leads there."""
    now = plan.point
    smaller = [p for p in plan.front if now and p.ram < now.ram]
    faster = [p for p in plan.front if now and p.cycles < now.cycles]
    if now and smaller:
        p = max(smaller, key=lambda p: p.ram)
        yield (f"--ram {now.ram - 1} leads to another schedule: {p.ram:,} bytes of RAM, {p.calls} calls, "
               f"{p.cycles - now.cycles:+,} cycles")
    if now and faster:
        p = min(faster, key=lambda p: p.ram)
        yield f"with {p.ram:,} bytes of RAM there is a schedule of {now.cycles - p.cycles:,} cycles less"


def _known(step: Step) -> set[str]:
    return {name for n in step.node.parts for name in (n.name, *n.origin)}


def _of_step(plan: Plan, i: int, step: Step) -> Iterable[str]:
    """Where the step runs, and where its result lies."""
    number, group = next((k, g) for k, g in enumerate(plan.kernel_steps, 1) if i in g)
    yield f"  kernel     : {number} of {len(plan.kernel_steps)}, step {step.function}, as {step.kernel.name}"
    if plan.phases or step.processor != plan.target.processor.name:
        rows = [f"rows {c.first} .. {c.end - 1}" for c in plan.calls if c.step == i] if i in plan.shared else [""]
        yield "  on         : " + ", ".join(f"{name} {part}".rstrip() for name, part in zip(plan.where(i), rows, strict=True))
    others = [plan.steps[k].function for k in group if k != i]
    if others:
        yield f"  fused with : {len(others)} more steps of the kernel, {others[0]} .. {others[-1]}"
    elif len(plan.kernel_steps) > 1:
        yield f"  alone      : {_why_alone(plan, i)}"
    for t in step.node.outputs:
        root, size = plan.root(t), plan.graph.type(t).bytes
        ring = plan.rings.get(root)
        place = next((p for p in plan.places if p.name == root), None)
        if ring:
            yield f"  streamed   : {printable(t, SHOWN)} is a ring of {ring} rows"
        elif place is None:
            yield f"  not stored : {printable(t, SHOWN)} lies in the caller's buffer"
        else:
            yield f"  stored     : {printable(t, SHOWN)} as a whole, {size:,} bytes"
        if place is not None:
            last = place.offset + place.size - 1
            yield f"  placed     : bytes {place.offset:,} to {last:,} of the arena, calls {place.first} to {place.last}"


def _why_alone(plan: Plan, i: int) -> str:
    """Why a step shares its kernel with no other, and what it would take."""
    if not plan.options.fuse:
        return "--no-fuse"
    if plan.options.input_rows:
        return "with --input-rows each step is a kernel"
    step = plan.steps[i]
    if step.spec.window is None and not step.spec.reads:
        return f"{step.kernel.name} needs all rows of its operand at once, and hands on too much to be joined"
    return "streaming it with its neighbours lowers neither the RAM nor the calls of the plan"


def _mentions(d: Decision, names: Iterable[str]) -> bool:
    return any(_whole(name).search(f"{d.subject} {d.reason}") for name in names if name)


def _whole(name: str) -> re.Pattern[str]:
    """A name that is no part of another one."""
    return re.compile(rf"(?<![\w/]){re.escape(name)}(?![\w/])")


def _told(rows: Iterable[Decision], anchor: Node | None) -> Iterable[str]:
    """Each decision once, with all that it was taken of; the kernel's first node is `it`."""
    names = sorted({anchor.name, *anchor.origin} if anchor else (), key=len, reverse=True)
    def plain(text: str) -> str:
        for name in filter(None, names):
            text = _whole(name).sub("it", text)
        return printable(text, SHOWN)
    told: dict[tuple[str, bool, str], dict[str, None]] = {}
    for d in rows:
        told.setdefault((d.stage, d.taken, plain(d.reason)), {})[plain(d.subject).removeprefix("it: ")] = None
    for (stage, taken, reason), of in told.items():
        yield f"    {'+' if taken else '-'} {stage:8} {', '.join(of)}: {reason}"


def _cores(plan: Plan, step: Step) -> Iterable[str]:
    """Kernels that come before the one that was taken, and lack nothing but features of the core."""
    call, has = select.anchor_call(plan, step.node), set(plan.target.processors[step.processor].processor.features)
    kernels = all_ops()[step.node.op].kernels
    lacks: dict[str, dict[str, None]] = {}
    for kernel in kernels[:kernels.index(step.kernel)]:
        if kernel.needs - has and not kernel.offer and not kernel.when(call):
            lacks.setdefault(" and ".join(sorted(kernel.needs - has)), {})[kernel.name] = None
    for feature, names in lacks.items():
        yield f"a target whose core has {feature} has {', '.join(names)} (`fuse2c list targets`)"


def _changes(rows: Iterable[Decision]) -> Iterable[str]:
    """What would turn refusals."""
    for d in rows:
        for stage, pattern, text in CHANGES:
            match = None if d.taken or d.stage != stage else re.search(pattern, d.reason)
            if match:
                yield text.format(*match.groups())
