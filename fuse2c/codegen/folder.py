"""Puts generated files into a folder: all of them or none; only what fuse2c wrote itself is ever replaced."""
from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fuse2c.errors import OutputError

MANIFEST = ".fuse2c"                        # names and hashes of what was written
PRODUCTS = ("*.o", "*.a", "*.d", "example")     # what the generated Makefile builds there
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2       # of Linux' renameat2


def write(content: Mapping[str, str], output: Path) -> Path:
    """Write the files into `output`, made or replaced as a whole. Raises OutputError.

    There is no moment at which the folder is incomplete, and on Linux none at which it is missing.
    """
    try:
        output = output.resolve()
        _refuse(output)
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{output.name[:40]}.", dir=output.parent) as side:
            new = Path(side) / "new"
            new.mkdir()
            for name, text in {**content, MANIFEST: manifest(content)}.items():
                (new / name).write_bytes(text.encode())
            _put(new, output, Path(side) / "old")
    except (OSError, RuntimeError) as e:        # RuntimeError: a loop of symbolic links
        raise OutputError(f"cannot write {output}: {getattr(e, 'strerror', None) or e}",
                          hint="choose another folder with -o") from None
    return output


def manifest(content: Mapping[str, str]) -> str:
    """One line for each file, as sha256sum writes it."""
    return "".join(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in sorted(content.items()))


def _refuse(output: Path) -> None:
    """Raise OutputError unless the folder is absent, empty, or as fuse2c left it."""
    if not output.exists():
        return
    here = Path.cwd()
    if output == here or output in here.parents:
        raise OutputError(f"{output} is in use as the working directory", hint="name a folder that fuse2c may replace")
    if not output.is_dir():
        raise OutputError(f"{output} is no folder", hint="choose another one with -o")
    found = sorted(output.iterdir())
    known = _known(output)
    if found and not known:
        raise OutputError(f"{output} exists and is no output of fuse2c", hint="choose another folder with -o")
    strange = [p.name for p in found if not _is_ours(p, known)]
    if strange:
        more = f" and {len(strange) - 5} more" if len(strange) > 5 else ""
        raise OutputError(f"{output} holds files that fuse2c did not write, or that were changed since: "
                          f"{', '.join(strange[:5])}{more}",
                          hint="move them elsewhere: the folder is replaced as a whole")


def _known(output: Path) -> dict[str, str]:
    """Hash of every file that fuse2c wrote, by name; empty where there is no manifest."""
    try:
        lines = (output / MANIFEST).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return {}
    pairs = (line.partition("  ") for line in lines)
    return {name: digest for digest, _, name in pairs if name}


def _is_ours(path: Path, known: Mapping[str, str]) -> bool:
    """Whether a file is unchanged, or a product of the build files."""
    if path.name == MANIFEST or any(path.match(pattern) for pattern in PRODUCTS):
        return path.is_file()
    if path.is_dir() and not path.is_symlink():
        return (path / "CMakeCache.txt").is_file()
    return path.is_file() and known.get(path.name) == hashlib.sha256(path.read_bytes()).hexdigest()


def _put(new: Path, output: Path, old: Path) -> None:
    """Let `new` take the place of `output`; what was there ends at `new` or `old`, beside it."""
    if not output.exists():
        new.rename(output)
    elif not _exchange(new, output):
        output.rename(old)
        try:
            new.rename(output)
        except OSError:
            old.rename(output)
            raise


def _exchange(a: Path, b: Path) -> bool:
    """Swap two folders in one step. False where the system or the file system cannot."""
    if sys.platform != "linux":
        return False
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except AttributeError:      # glibc before 2.28
        return False
    return bool(renameat2(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _RENAME_EXCHANGE) == 0)
