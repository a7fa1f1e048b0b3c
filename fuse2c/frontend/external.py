"""Reads a model file as untrusted input: nothing outside its folder, nothing larger than it says."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from fuse2c.errors import ExternalData, ModelError

FILE_LIMIT = 2 ** 31 - 1            # protobuf's own limit
ELEMENT_LIMIT = 2 ** 28             # of one tensor


def parse(path: Path) -> onnx.ModelProto:
    """The model, without external data. Raises ModelError for what is no ONNX file."""
    try:
        size = path.stat().st_size
        if size > FILE_LIMIT:
            raise ModelError(f"{path.name} has {size} bytes, the limit is {FILE_LIMIT}",
                             hint="keep the weights in external data")
        content = path.read_bytes()
    except OSError as e:
        raise ModelError(f"cannot read {path}: {e.strerror}", hint="is the path right?") from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except (DecodeError, UnicodeDecodeError):
        raise ModelError(f"{path.name} is not an ONNX model, or it is truncated",
                         hint="export it again; fuse2c reads .onnx files") from None
    if not model.HasField("graph") or not model.opset_import or model.ir_version == 0:
        raise ModelError(f"{path.name} is not an ONNX model: it has no graph or no operator set version",
                         hint="export it again; fuse2c reads .onnx files")
    return model


def array(tensor: onnx.TensorProto, folder: Path) -> np.ndarray:
    """The value of an initialiser; external data is read from `folder`."""
    dims = tuple(tensor.dims)
    count = int(np.prod(dims, dtype=object)) if dims else 1
    if min(dims, default=0) < 0 or count > ELEMENT_LIMIT:
        raise ModelError(f"an initialiser has the shape {dims}", tensor=tensor.name,
                         hint=f"at most {ELEMENT_LIMIT} elements")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external(tensor, folder, dims, count)
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError) as e:
        raise ModelError(f"an initialiser cannot be read: {e}", tensor=tensor.name,
                         hint="the file is damaged") from None


def _external(tensor: onnx.TensorProto, folder: Path, dims: tuple[int, ...], count: int) -> np.ndarray:
    entries = {e.key: e.value for e in tensor.external_data}
    location = entries.get("location", "")
    path = (folder / location).resolve()
    if not location or not path.is_relative_to(folder.resolve()) or Path(location).is_absolute():
        raise ExternalData(f"external data points outside the model's folder: {location!r}", tensor=tensor.name,
                           hint="keep the data file beside the model")
    if not path.is_file():
        raise ExternalData(f"the external data file {location!r} is missing", tensor=tensor.name,
                           hint="copy it beside the model")
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", count * dtype.itemsize))
    except ValueError:
        raise ExternalData("offset or length is no number", tensor=tensor.name) from None
    size = path.stat().st_size
    if offset < 0 or length != count * dtype.itemsize or offset + length > size:
        raise ExternalData(f"{location!r} has {size} bytes; the tensor wants {count * dtype.itemsize} from {offset} "
                           f"(declared length {length})", tensor=tensor.name, hint="the data file is truncated")
    data = np.fromfile(path, dtype=np.uint8, count=length, offset=offset).view(dtype.newbyteorder("<"))
    return data.astype(dtype).reshape(dims)
