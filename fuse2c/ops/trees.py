"""TreeEnsemble: decision trees, walked from the root to a leaf; what the leaves weigh is combined for each target."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import copy
from fuse2c.kernels.scalars import literal
from fuse2c.op import Call, Kernel, Op, Source, Spec, Work

MEMBER = 6
NODES = ("featureids", "splits", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")      # attributes nodes_...
# Comparisons of a feature with a node's threshold, by ONNX's number: numpy's and C's.
COMPARISONS: tuple[tuple[Callable[..., np.ndarray], str], ...] = (
    (np.less_equal, "v <= split"), (np.less, "v < split"), (np.greater_equal, "v >= split"), (np.greater, "v > split"),
    (np.equal, "v == split"), (np.not_equal, "v != split"))
COMBINED: tuple[tuple[Callable[..., np.ndarray], str], ...] = (      # by aggregate_function: AVERAGE, SUM, MIN, MAX
    (np.add, "sum + weight"), (np.add, "sum + weight"), (np.minimum, "(weight < sum) ? weight : sum"),
    (np.maximum, "(weight > sum) ? weight : sum"))


@dataclass(frozen=True, slots=True)
class Attrs:
    """Inner nodes (feature, comparison, threshold, next node for yes and for no), leaves (target, weight), roots.

    A next node below 0 is leaf -1 - next. `missing`: what is no number goes to yes. `members`: values that lead to yes,
    of each node that compares with a set. `depth`: the longest way to a leaf. `divisor`: of the combined weights.
    """

    features: tuple[int, ...]
    modes: tuple[int, ...]
    splits: tuple[float, ...]
    yes: tuple[int, ...]
    no: tuple[int, ...]
    missing: tuple[bool, ...]
    members: tuple[tuple[float, ...], ...]
    targets: tuple[int, ...]
    weights: tuple[float, ...]
    roots: tuple[int, ...]
    depth: int
    combine: int
    count: int
    divisor: int


def from_onnx(src: Source) -> None:
    """TreeEnsemble. Raises ShapeError for nodes that are no trees."""
    a = src.attrs
    modes, roots = [int(m) for m in a["nodes_modes"]], a["tree_roots"]
    combine = a.get("aggregate_function", 1)
    if a.get("post_transform", 0):      # 1 is a softmax in ONNX's text, and in onnxruntime the logistic function
        raise src.refuse("a post_transform", attr="post_transform", hint="put a Softmax or Sigmoid behind the trees")
    if not 0 <= combine < len(COMBINED) or not set(modes) <= set(range(MEMBER + 1)):
        raise src.refuse(f"aggregate_function {combine} of modes {sorted(set(modes))}")
    nodes = {key: list(a[f"nodes_{key}"]) for key in NODES}
    nodes["missing"] = list(a.get("nodes_missing_value_tracks_true", [0] * len(modes)))
    targets, weights = list(a["leaf_targetids"]), list(a["leaf_weights"])
    values = np.asarray(a.get("membership_values", ()), np.float64)
    ends = np.flatnonzero(np.isnan(values))                     # a set ends with what is no number
    if {*map(len, nodes.values())} != {len(modes)} or len(targets) != len(weights) or len(ends) != modes.count(MEMBER) \
            or min(*nodes["truenodeids"], *nodes["falsenodeids"], *roots) < 0:
        raise ValueError("lists of different lengths, or nodes below 0")
    yes, no = ([-1 - i if leaf else i for i, leaf in zip(nodes[f"{side}nodeids"], nodes[f"{side}leafs"], strict=True)]
               for side in ("true", "false"))
    starts = tuple(yes[r] if yes[r] == no[r] < 0 else r for r in roots)     # a tree that is one leaf
    sets = iter(np.split(values, ends + 1))
    members = tuple(tuple(map(float, next(sets)[:-1])) if m == MEMBER else () for m in modes)
    src.node("TreeEnsemble", Attrs(
        tuple(nodes["featureids"]), tuple(modes), tuple(map(float, nodes["splits"])), tuple(yes), tuple(no),
        tuple(map(bool, nodes["missing"])), members, tuple(targets), tuple(map(float, weights)), starts,
        _depth(src, yes, no, starts, len(targets)), combine, a.get("n_targets", 1 + max(targets)),
        len(roots) if combine == 0 else 1))


def _depth(src: Source, yes: list[int], no: list[int], roots: tuple[int, ...], leaves: int) -> int:
    """The longest way from a root to a leaf."""
    level, depth = set(roots), 0
    while level := {i for i in level if i >= 0}:
        depth += 1
        if depth > len(yes):
            raise ShapeError("the nodes form a cycle", node=src.name, op=src.op)
        level = {i for n in level for i in (yes[n], no[n])}
    if min((*yes, *no, *roots), default=0) < -leaves:
        raise ShapeError(f"a leaf beyond the {leaves} there are", node=src.name, op=src.op)
    return depth


def infer(c: Call) -> list[TensorType]:
    """[N, targets]."""
    x, a = c.type(0), c.attrs
    if len(x.shape) != 2 or not set(a.features) <= set(range(x.shape[1])) or not set(a.targets) <= set(range(a.count)):
        raise ShapeError(f"features or targets beyond those of {x.shape} and {a.count}", node=c.node.name, op=c.node.op)
    return [TensorType(x.dtype, (x.shape[0], a.count))]


def reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """All rows go down one tree at a time, level by level."""
    a, rows = c.attrs, np.arange(x.shape[0])
    combine, _ = COMBINED[a.combine]
    y = np.full((x.shape[0], a.count), _start(a.combine, x.dtype), x.dtype)
    split, members = np.asarray(a.splits, x.dtype), [np.asarray(m, x.dtype) for m in a.members]
    for root in a.roots:
        at = np.full(x.shape[0], root)
        for _ in range(a.depth):
            for n in set(at[at >= 0].tolist()):
                here = at == n
                v = x[here, a.features[n]]
                hit = np.isin(v, members[n]) if a.modes[n] == MEMBER else COMPARISONS[a.modes[n]][0](v, split[n])
                at[here] = np.where(hit | (a.missing[n] & np.isnan(v)), a.yes[n], a.no[n])
        target = np.asarray(a.targets)[-1 - at]
        y[rows, target] = combine(y[rows, target], np.asarray(a.weights, x.dtype)[-1 - at])
    return [y / x.dtype.type(a.divisor)]


def sums(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """All trees at their heaviest leaf."""
    return [np.full(c.y[0].shape, len(c.attrs.roots) * max(map(abs, c.attrs.weights)) / c.attrs.divisor)]


def _start(combine: int, dtype: np.dtype) -> float:
    """What a target has before the first leaf: no weight is beyond it."""
    return (0.0, 0.0, float(np.finfo(dtype).max), float(np.finfo(dtype).min))[combine]


def spec(c: Call) -> Spec:
    """Tables of nodes and leaves; the comparison is fixed where all nodes have the same."""
    a, dtype, x = c.attrs, c.type(0).dtype, c.type(0)
    tables = {name: copy.smallest(np.asarray(values, np.int64)) for name, values in (
        ("feature", a.features), ("yes", a.yes), ("no", a.no), ("target", a.targets), ("root", a.roots))}
    tables |= {"split": np.asarray(a.splits, dtype.numpy), "weight": np.asarray(a.weights, dtype.numpy)}
    modes = sorted(set(a.modes))
    texts = ["hit != 0" if m == MEMBER else COMPARISONS[m][1] for m in modes]
    test = f"({texts[-1]})"
    for mode, text in zip(modes[-2::-1], texts[-2::-1], strict=True):
        test = f"(({{mode}}[at] == {mode}) ? ({text}) : {test})"
    if len(modes) > 1:
        tables["mode"] = np.asarray(a.modes, np.int8)
    if any(a.missing):
        tables["missing"] = np.asarray(a.missing, np.int8)
        test = f"({test} || ((v != v) && ({{missing}}[at] != 0)))"
    if MEMBER in modes:
        tables["member"] = np.asarray([v for m in a.members for v in m], dtype.numpy)
        tables["first"] = copy.smallest(np.cumsum([0, *map(len, a.members)]))
    names = {"ROWS": x.shape[0], "FEATURES": x.shape[1], "TARGETS": a.count, "TREES": len(a.roots), "DEPTH": a.depth,
             "DIVISOR": a.divisor, "LARGEST_SET": max(map(len, a.members), default=0)}
    return Spec(names, tables, by_rows=False,
                flags={"test": test, "sets": MEMBER in modes, "compared": modes != [MEMBER],
                       "combine": COMBINED[a.combine][1], "mean": a.divisor > 1,
                       "start": literal(_start(a.combine, dtype.numpy), dtype)})


def work(c: Call) -> Work:
    """A few operations on each level."""
    return Work(alu=6 * c.type(0).shape[0] * len(c.attrs.roots) * max(c.attrs.depth, 1))


def when(c: Call) -> str:
    """float32 and float64."""
    return "" if c.type(0).dtype in (DType.F32, DType.F64) else f"no kernel for {c.type(0).dtype}"


OP = Op(name="TreeEnsemble", onnx={"TreeEnsemble": from_onnx}, infer=infer, reference=reference, work=work, sums=sums,
        docs="no post_transform", kernels=(Kernel("trees", spec, when=when),))
