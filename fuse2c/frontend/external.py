"""Reads a model file as untrusted input: nothing outside its folder, nothing larger than it says."""
from __future__ import annotations

import stat
from math import prod
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from fuse2c.errors import ExternalData, ModelError

FILE_LIMIT = 2 ** 31 - 1            # protobuf's own limit
ELEMENT_LIMIT = 2 ** 28             # of one tensor: generated code indexes with int32
EXTERNAL_LIMIT = 2 ** 32            # bytes of external data in all: many initialisers may name the same bytes


def parse(path: Path) -> onnx.ModelProto:
    """The model, without external data. Raises ModelError for what is no ONNX file."""
    try:
        info = path.stat()
        if stat.S_ISDIR(info.st_mode):
            raise ModelError(f"{path} is a folder", hint="name the .onnx file in it")
        if not stat.S_ISREG(info.st_mode):
            raise ModelError(f"{path} is no regular file", hint="save the model to a file first")
        if info.st_size > FILE_LIMIT:
            raise ModelError(f"{path.name} has {info.st_size} bytes, the limit is {FILE_LIMIT}",
                             hint="keep the weights in external data")
        content = path.read_bytes()
    except OSError as e:
        raise ModelError(f"cannot read {path}: {e.strerror}", hint="is the path right?") from None
    if not content:
        raise ModelError(f"{path.name} is empty", hint="export it again")
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


class Weights:
    """Values of initialisers; external data is read from one folder, and no more of it than EXTERNAL_LIMIT."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.left = folder, EXTERNAL_LIMIT

    def array(self, tensor: onnx.TensorProto) -> np.ndarray:
        """The value of an initialiser. Raises ModelError; ExternalData for a file that is not as it should be."""
        dims = tuple(tensor.dims)
        if min(dims, default=0) < 0 or prod(dims) > ELEMENT_LIMIT:
            raise ModelError(f"an initialiser has the shape {list(dims)}", tensor=tensor.name,
                             hint=f"at most {ELEMENT_LIMIT} elements")
        try:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        except KeyError:
            raise ModelError(f"an initialiser has the unknown element type {tensor.data_type}", tensor=tensor.name,
                             hint="the file is damaged, or made for a newer ONNX") from None
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            # onnx unpacks what it also packed: types of less than a byte, and the byte order of files.
            tensor = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=dims,
                                      raw_data=self._external(tensor, _bytes(dtype, prod(dims))))
        try:
            return np.asarray(numpy_helper.to_array(tensor))
        except (ValueError, TypeError, KeyError, OverflowError, MemoryError):
            raise ModelError(f"an initialiser has another number of values than its shape {list(dims)} says",
                             tensor=tensor.name, hint="the file is damaged") from None

    def _external(self, tensor: onnx.TensorProto, wanted: int) -> bytes:
        """The `wanted` bytes of a tensor from its file."""
        entries = {e.key: e.value for e in tensor.external_data}
        location = entries.get("location", "")
        self.left -= wanted
        if self.left < 0:
            raise ExternalData(f"the model wants more than {EXTERNAL_LIMIT} bytes of external data", tensor=tensor.name)
        try:
            path = (self.folder / location).resolve()
            inside = location and not Path(location).is_absolute() and path.is_relative_to(self.folder.resolve())
            if not inside:
                raise ExternalData(f"external data points outside the model's folder: {location!r}",
                                   tensor=tensor.name, hint="keep the data file beside the model")
            if not path.is_file():
                raise ExternalData(f"the external data file {location!r} is missing", tensor=tensor.name,
                                   hint="copy it beside the model")
            offset, length = _number(tensor, entries, "offset", 0), _number(tensor, entries, "length", wanted)
            size = path.stat().st_size
            if offset < 0 or length != wanted or offset + length > size:
                raise ExternalData(f"{location!r} has {size} bytes; the tensor wants {wanted} from {offset} "
                                   f"(declared length {length})", tensor=tensor.name, hint="the data file is truncated")
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except (OSError, ValueError, RuntimeError) as e:        # unreadable, a NUL in the name, a loop of links
            raise ExternalData(f"the external data file {location[:100]!r} cannot be read: "
                               f"{getattr(e, 'strerror', None) or e}", tensor=tensor.name) from None


def _bytes(dtype: np.dtype, count: int) -> int:
    """Size of `count` elements in a file; types of 2 and 4 bits are packed."""
    bits = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}.get(dtype.name, 8 * dtype.itemsize)
    return -(-count * bits // 8)


def _number(tensor: onnx.TensorProto, entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key, str(default))
    if not text.removeprefix("-").isdecimal() or len(text) > 20:
        raise ExternalData(f"the {key} of external data is no number: {text[:40]!r}", tensor=tensor.name,
                           hint="the file is damaged")
    return int(text)
