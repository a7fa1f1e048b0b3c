"""NonMaxSuppression: boxes in order of their scores, without those that overlap a better one of their class.

The result has room for the largest number of boxes; see compact.py for results whose size depends on the data.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import copy
from fuse2c.kernels.scalars import literal
from fuse2c.op import Call, Kernel, Op, Source, Spec, Work
from fuse2c.ops import _onnx
from fuse2c.ops.compact import COUNT

PORTS = ("boxes", "scores")


@dataclass(frozen=True, slots=True)
class Attrs:
    """Boxes of one class at most; thresholds (None: any score counts); whether boxes are given by their centres."""

    most: int
    overlap: float
    score: float | None
    centred: bool


def from_onnx(src: Source) -> None:
    """NonMaxSuppression; limits are parameters."""
    most, overlap, score = (src.const(i, what).reshape(-1) if src.has(i) else np.zeros(0)
                            for i, what in ((2, "max_output_boxes_per_class"), (3, "iou_threshold"),
                                            (4, "score_threshold")))
    limit = min(int(most[0]) if most.size else 0, src.graph.type(src.inputs[0]).shape[1])
    attrs = Attrs(max(limit, 0), float(overlap[0]) if overlap.size else 0.0, float(score[0]) if score.size else None,
                  bool(src.attrs.get("center_point_box", 0)))
    src.node("NonMaxSuppression", attrs, src.inputs[:2], (src.outputs[0], src.graph.sized(src.outputs[0])))


def infer(c: Call) -> list[TensorType]:
    """[batches * classes * boxes, 3], and how many of them count."""
    boxes, scores = c.type(0).shape, c.type(1).shape
    if len(boxes) != 3 or boxes[2] != 4 or len(scores) != 3 or (boxes[0], boxes[1]) != (scores[0], scores[2]):
        raise ShapeError(f"boxes {boxes} and scores {scores}", node=c.node.name, op=c.node.op)
    return [TensorType(DType.I64, (scores[0] * scores[1] * c.attrs.most, 3)), COUNT]


def reference(c: Call, boxes: np.ndarray, scores: np.ndarray) -> list[np.ndarray]:
    """onnx's own, padded with zeros."""
    a = c.attrs
    limits = [np.array([a.most]), np.array([a.overlap], np.float32)]
    if a.score is not None:
        limits.append(np.array([a.score], np.float32))
    found = _onnx.run(_onnx.attrs("NonMaxSuppression", 11, {"center_point_box": int(a.centred)}),
                      [boxes, scores, *limits])[0].reshape(-1, 3)
    y = np.zeros(infer(c)[0].shape, np.int64)
    y[:len(found)] = found
    return [y, np.array([len(found)], np.int64)]


def spec(c: Call) -> Spec:
    """The scores of one class that may still be chosen are kept in scratch memory."""
    batches, classes, count = c.type(1).shape
    a = c.attrs
    least = "(-F2C_INFINITY)" if a.score is None else literal(a.score, DType.F32)
    return Spec({"BATCHES": batches, "CLASSES": classes, "COUNT": count, "MOST": a.most, "CENTRED": int(a.centred),
                 "ROOM": c.y[0].count}, copy.constants(c, PORTS), scratch=4 * count, by_rows=False,
                flags={"least": least, "overlap": literal(a.overlap, DType.F32)})


def work(c: Call) -> Work:
    """Every chosen box is compared with all others."""
    return Work(alu=20 * c.type(1).count * max(c.attrs.most, 1))


def when(c: Call) -> str:
    """float32."""
    return "" if all(c.type(i).dtype == DType.F32 for i in (0, 1)) else f"no kernel for {c.type(0).dtype}"


OP = Op(name="NonMaxSuppression", onnx={"NonMaxSuppression": from_onnx}, ports=PORTS, infer=infer, reference=reference,
        layout="row-major", work=work, kernels=(Kernel("nms", spec, when=when),))
