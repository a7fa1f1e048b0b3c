"""What an operator is: the contract that every file in fuse2c/ops/ fills in."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fuse2c.errors import InternalError, ShapeError, UnsupportedOp
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import DType, Quant, TensorType


@dataclass(frozen=True, slots=True)
class Call:
    """A node with its types and constants at hand. Every function in an operator file takes one."""

    node: Node
    x: tuple[TensorType | None, ...]        # None: an absent optional input
    y: tuple[TensorType, ...]
    const: tuple[np.ndarray | None, ...]    # values of constant inputs, by port
    requant: str = "fixed"
    group: Group | None = None              # set for a kernel: the whole of the node that it serves
    rows: int = 1                           # of the tensor whose bytes the first input is a view of

    @property
    def attrs(self) -> Any:
        """The node's attributes: an instance of the operator's own dataclass."""
        return self.node.attrs

    @property
    def quantised(self) -> bool:
        """Whether the tensors' elements stand for real numbers, by the scales in their types."""
        return self.node.quantised

    def quant(self, port: int) -> Quant:
        """The quantisation of an input of a quantised node."""
        return _quant(self.type(port), self.node)

    @property
    def y_quant(self) -> Quant:
        """The quantisation of the output of a quantised node."""
        return _quant(self.y[0], self.node)

    def has(self, port: int) -> bool:
        """Whether an optional input is there."""
        return port < len(self.x) and self.x[port] is not None

    def type(self, port: int) -> TensorType:
        """The type of an input that must be there."""
        found = self.x[port] if port < len(self.x) else None
        if found is None:
            raise ShapeError(f"input {port} is missing", node=self.node.name, op=self.node.op)
        return found

    def constant(self, port: int) -> np.ndarray | None:
        """The value of a constant input; None when it is absent or variable."""
        return self.const[port] if port < len(self.const) else None


@dataclass(frozen=True, slots=True)
class Group:
    """A fused node and its graph."""

    graph: Graph
    node: Node

    @property
    def call(self) -> Call:
        """The node as one call: operands from outside, results that leave it."""
        return bind(self.graph, self.node)


def _quant(t: TensorType, node: Node) -> Quant:
    if t.quant is None:
        raise InternalError("a quantised node has a tensor without a scale", node=node.name, op=node.op)
    return t.quant


def bind(g: Graph, n: Node) -> Call:
    """The call of a node of `g`."""
    x = tuple(g.type(t) if t else None for t in n.inputs)
    return Call(n, x, tuple(g.type(t) for t in n.outputs if t in g.tensors), tuple(map(g.data, n.inputs)), g.requant)


@dataclass(frozen=True, slots=True)
class Work:
    """Counted once; priced by the target for time, worst case and energy."""

    macs: int = 0               # multiply-accumulates
    alu: int = 0                # other arithmetic, roughly


@dataclass(frozen=True, slots=True)
class Scalar:
    """An operator on one element: a C expression over {a}, {b}, ... and the tables that it reads as {t_<name>}."""

    expr: str
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    clamp: tuple[int, int] | None = None    # set when the operator is no more than this clamp of {a}
    limits: tuple[int, int] | None = None   # the result is still to be limited to this range
    limited: Mapping[tuple[int, int], str] = field(default_factory=dict)    # forms that do it themselves, by range
    words: str = ""             # `expr` for four elements at once, by functions of f2c_mve.h; "": there is no such form
    shifted: tuple[str, int] = ("", 0)      # `words` still to be shifted right by 1..16 bits, rounded half up


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One variable of a reduction: C text of its start and of its next value, over {v}, {i} and {acc0}, {acc1}, ..."""

    ctype: str
    start: str
    update: str


@dataclass(frozen=True, slots=True)
class Reduction:
    """An operator inside a loop nest: over `axes` of its first input, {v} its element, {i} its index on the last axis.

    The accumulators are updated in order; `end` is the result, over {acc0}, {acc1}, ...
    """

    axes: tuple[int, ...]
    accumulators: tuple[Accumulator, ...]
    end: str


@dataclass(frozen=True, slots=True)
class Contraction:
    """y[..., m, n] = bias[n] + sum over k of a[..., m, k] * b[..., k, n]: inputs 0, 1 and 2; b may lie as [n, k]."""

    transposed: bool


@dataclass(frozen=True, slots=True)
class Lookup:
    """y[i..., j...] = table[index[i...], j...]: inputs 0 and 1."""


@dataclass(frozen=True, slots=True)
class Remap:
    """y[i, j, ...] = x[maps[0][i], maps[1][j], ...]: for each axis the input index of every output index."""

    maps: tuple[Sequence[int], ...]


@dataclass(frozen=True, slots=True)
class Join:
    """y is its inputs one behind the other along an axis; inside a nest, of one input: from index `start` on."""

    axis: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class Regroup:
    """The same elements in the same order, in another shape."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """Simpler operators with the same meaning: nodes from the call's inputs to its output, and the tensors between."""

    nodes: tuple[Node, ...]
    types: Mapping[str, TensorType]


NestForm = Reduction | Contraction | Lookup | Remap | Join | Regroup | Expansion | str      # str: the reason why there is none


@dataclass(frozen=True, slots=True)
class RowWindow:
    """Output row j reads input rows j * stride - pad .. j * stride - pad + extent - 1, as far as they exist."""

    extent: int = 1
    stride: int = 1
    pad: int = 0

    def rows(self, j: int, height: int) -> tuple[int, int]:
        """First and last input row of output row j (last < first: none)."""
        first = j * self.stride - self.pad
        return max(first, 0), min(first + self.extent, height) - 1


Reads = tuple[tuple[int, ...], tuple[int, ...]]     # first and last row of an operand, for each row computed


# Elements or words loaded, multiplications, tiles begun, words of weights unpacked or vectors finished; lines or passes begun.
EFFORT = ("load", "multiply", "tile", "unpack", "line")
FUNCTION = "function"   # instructions of the runtime's functions, by kernels/functions.py: where a node does not say them


@dataclass(frozen=True, slots=True)
class Spec:
    """All that a kernel's template needs for one call: computed here, only printed there."""

    constants: Mapping[str, int] = field(default_factory=dict)      # an enum at the head of the function
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)  # const data
    finish: Scalar | None = None            # accumulator {a} -> element; None: the element itself
    macs: int | None = None                 # multiply-accumulates, if it leaves out some that the operator's work has
    scratch: int = 0                        # bytes
    keeps: bool = False                     # scratch holds values from one range of rows to the next
    written: bool = False                   # its operands are written where they belong: there is nothing to call
    over_input: bool = False                # the rows counted by `rows` are those of the input; the last one finishes y
    rows: int = 1                           # output rows of one image; 1: the kernel has no row range
    images: int = 1                         # how often the kernel runs, with whole images in between
    together: int = 1                       # so many rows are computed with the first of them; the others then take no time
    adjoining: bool = False                 # and they follow each other in memory: those written, and those read row for row
    along: int | None = None                # axis of those rows, where it is not the outermost of the output in memory
    by_rows: bool = True                    # the function takes the range of rows to compute
    window: RowWindow | None = None         # rows of the first input that an output row reads; None: all of them
    reads: Mapping[int, Reads] = field(default_factory=dict)        # of a kernel without window: rows, by port
    acc: str = ""                           # C type of the accumulator, if not the usual one for the output
    channel: str = "oc"                     # what the finishing function calls the index of its tables
    flags: Mapping[str, Any] = field(default_factory=dict)          # further values for the template
    effort: Mapping[str, int] = field(default_factory=dict)         # of EFFORT, FUNCTION or price.COUNTS, an image
    most: Mapping[str, int] = field(default_factory=dict)           # the same at worst, where it depends on the data


@dataclass(frozen=True, slots=True)
class Kernel:
    """One C implementation of an operator: templates/kernels/<name>.c.j2. List the most specialised first."""

    name: str
    spec: Callable[[Call], Spec]
    when: Callable[[Call], str] = lambda c: ""      # "" or why it does not apply
    needs: frozenset[str] = frozenset()             # core features: dsp, mve, fpu ...
    strided: bool = False       # its first operand and its result may be parts of larger tensors: all goes by strides
    offer: str = ""             # not selected, but offered, for what is named here: see passes/trade.py
    planar: bool = False                            # reads rows channel by channel: fastest where they lie so


@dataclass(frozen=True, slots=True)
class Source:
    """An ONNX node in neutral form, so that operator files need not know ONNX's own classes."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    opset: int
    graph: Importer

    def node(self, op: str, attrs: object, inputs: tuple[str, ...] | None = None,
             outputs: tuple[str, ...] | None = None) -> None:
        """Add a node to the graph under construction."""
        self.graph.add(Node(self.name, op, self.inputs if inputs is None else inputs,
                            self.outputs if outputs is None else outputs, attrs, origin=(self.name,)))

    def has(self, port: int) -> bool:
        """Whether an optional input is given."""
        return port < len(self.inputs) and self.inputs[port] != ""

    def const(self, port: int, what: str) -> np.ndarray:
        """The value of an input that must be constant; `what` names it in the error."""
        value = self.graph.data(self.inputs[port])
        if value is None:
            raise UnsupportedOp(f"{what} must be a constant", node=self.name, op=self.op, tensor=self.inputs[port],
                                hint="simplify the model with constant folding, or export it with static shapes")
        return value

    def setting(self, attr: str, port: int, default: Any = None) -> Any:
        """A value that older opsets give as an attribute and newer ones as a constant input."""
        if attr in self.attrs:
            return self.attrs[attr]
        return self.const(port, attr).tolist() if self.has(port) else default

    def refuse(self, message: str, attr: str = "", hint: str = "") -> UnsupportedOp:
        """An error to raise for what is not supported of this node."""
        return UnsupportedOp(message, node=self.name, op=self.op, attr=attr, hint=hint)


class Importer:
    """The graph under construction: what an operator's ONNX importer may see and do."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.counts: dict[str, str] = {}        # tensor of a size that depends on the data -> how much of it counts
        self.infer: Callable[[Call], list[TensorType]] = lambda c: []

    def add(self, node: Node) -> None:
        """Append a node; its output types are inferred from its inputs. Without elements its result is a constant."""
        for t in node.inputs:
            if t and t not in self.tensors:
                raise ShapeError("an input is read before anything writes it", node=node.name, op=node.op, tensor=t,
                                 hint="are the nodes in topological order?")
            if t in self.counts:
                raise UnsupportedOp("an input whose size depends on the data", node=node.name, op=node.op, tensor=t,
                                    hint="only outputs of the model may have such a size; cut the model there")
        x = tuple(self.tensors[t].type if t else None for t in node.inputs)
        call = Call(node, x, (), tuple(self.data(t) for t in node.inputs))
        types = self.infer(call)
        empty = all(y.count == 0 for y in types)
        for name, y in zip(node.outputs, types, strict=True):
            self.tensors[name] = Tensor(name, y, np.zeros(y.shape, y.dtype.numpy) if empty else None)
        if not empty:
            self.nodes.append(node)

    def data(self, name: str) -> np.ndarray | None:
        """The value of a constant."""
        return self.tensors[name].data if name in self.tensors else None

    def type(self, name: str) -> TensorType:
        """The type of a tensor that is already there."""
        return self.tensors[name].type

    def constant(self, base: str, value: np.ndarray) -> str:
        """Add a constant under a fresh name that starts with `base`; returns the name."""
        name = self.temporary(base)
        self.tensors[name] = Tensor(name, TensorType(DType(value.dtype.name), value.shape), value)
        return name

    def temporary(self, base: str) -> str:
        """A tensor name that is not in use yet."""
        name, count = base, 1
        while name in self.tensors:
            name, count = f"{base}.{count}", count + 1
        return name

    def sized(self, *names: str) -> str:
        """The name of a count for tensors whose size depends on the data; the model has it as a further output."""
        count = self.temporary(f"{names[0]}_count")
        self.counts |= dict.fromkeys(names, count)
        return count

    def retype(self, name: str, t: TensorType) -> None:
        """Change a tensor's type (to attach a quantisation)."""
        self.tensors[name] = replace(self.tensors[name], type=t)


Layout = Callable[[Call], tuple[int, ...] | None]


def no_nest(c: Call) -> NestForm:
    """The rule for operators without such a form; elementwise ones need none."""
    return f"{c.node.op} has no form inside a loop nest"


@dataclass(frozen=True, slots=True)
class Op:
    """One operator of the IR: meaning (infer, reference), cost (work), origin (onnx) and C (kernels, scalar)."""

    name: str
    infer: Callable[[Call], list[TensorType]]
    reference: Callable[..., list[np.ndarray]]      # (call, *inputs) -> outputs; logical arrays
    onnx: Mapping[str, Callable[[Source], None]] = field(default_factory=dict)
    ports: tuple[str, ...] = ("x",)                 # C names of the inputs; the output is y
    work: Callable[[Call], Work] = lambda c: Work(alu=c.y[0].count)
    kernels: tuple[Kernel, ...] = ()
    scalar: Callable[[Call], Scalar] | None = None  # elementwise operators: usable in an epilogue
    integer: Callable[[Call], str] = lambda c: "it has no integer form"     # "" or why not, with 8-bit types
    # "row-major" | "same" (elementwise) | "spatial" | "view" | "strided"; or which of them for a call
    layout: str | Callable[[Call], str] = "row-major"
    nest: Callable[[Call], NestForm] = no_nest          # how it takes part in a fused loop nest
    costly: Callable[[Call], bool] = lambda c: False    # elementwise: too much work to do it twice
    half: bool = False              # its kernels take 16-bit floats as they are
    moves: bool = False             # only moves elements: commutes with quantisation
    anchor: bool = False            # its kernels finish each element in a function that can take an epilogue
    channel_axis: int | None = None # of the output: the axis whose index the finishing function knows
    sums: Callable[..., list[np.ndarray]] | None = None     # (call, *|inputs|) -> what sums can reach, for checks
    docs: str = ""                  # what is not supported, for docs/OPERATORS.md


def layout(op: Op, c: Call) -> str:
    """How a call's kernel wants its operands to lie, and how it writes its result."""
    return op.layout if isinstance(op.layout, str) else op.layout(c)


def port_name(ports: tuple[str, ...], port: int) -> str:
    """The C name of an input: further ones of an operator of any number of operands are numbered."""
    return ports[port] if port < len(ports) else f"{ports[-1]}{port}"


def arguments(op: Op, c: Call) -> list[int]:
    """Ports whose tensors a kernel reads from memory at run time: neither absent nor constant."""
    return [i for i, t in enumerate(c.x) if t is not None and c.constant(i) is None]
