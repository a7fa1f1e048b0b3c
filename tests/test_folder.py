"""Output folders: complete or absent at every moment, and nothing is lost that fuse2c did not write."""
from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fuse2c.codegen import folder
from fuse2c.errors import OutputError

ROOT = Path(__file__).parents[1]
OLD = {"a.c": "int a;\n", "a.h": "extern int a;\n"}
NEW = {"b.c": "int b;\n" * 1000, "b.h": "extern int b;\n", "c.c": "int c;\n"}
# Writes NEW, and stops before its third file until it is killed.
SLOW = """
import sys, time
from pathlib import Path
from fuse2c.codegen import folder
count, original = 0, Path.write_bytes
def slow(self, data):
    global count
    count += 1
    if count == 3:
        print("waiting", flush=True)
        time.sleep(600)
    return original(self, data)
Path.write_bytes = slow
sys.path.insert(0, sys.argv[2])
from test_folder import NEW
folder.write(NEW, Path(sys.argv[1]))
"""


def content(path: Path) -> dict[str, str]:
    return {p.name: p.read_text(encoding="utf-8") for p in path.iterdir() if p.name != folder.MANIFEST}


def only(parent: Path, *names: str) -> bool:
    """Whether a folder holds these names and nothing hidden beside them."""
    return sorted(p.name for p in parent.iterdir()) == sorted(names)


def test_all_files_and_a_manifest_that_sha256sum_reads(tmp_path: Path) -> None:
    out = folder.write(NEW, tmp_path / "deep" / "er" / "out")
    assert content(out) == NEW and only(tmp_path / "deep" / "er", "out")
    assert (out / "b.c").stat().st_mode & 0o777 == 0o666 & ~_umask() and out.stat().st_mode & 0o777 == 0o777 & ~_umask()
    if shutil.which("sha256sum") is None:
        pytest.skip("sha256sum, which reads the manifest, is not installed")
    done = subprocess.run(["sha256sum", "--check", folder.MANIFEST], cwd=out, capture_output=True, check=False)
    assert done.returncode == 0 and done.stdout.count(b": OK") == len(NEW)


def start(code: str, out: Path) -> subprocess.Popen[str]:
    """Another process that writes to a folder."""
    return subprocess.Popen([sys.executable, "-c", code, out, Path(__file__).parent], stdout=subprocess.PIPE, text=True,
                            env=os.environ | {"PYTHONPATH": str(ROOT)})


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "renames"])
def test_an_older_output_is_replaced(exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exchange:
        monkeypatch.setattr(folder, "_exchange", lambda a, b: False)
    out = folder.write(OLD, tmp_path / "out")
    (out / "a.o").write_bytes(b"\x7fELF")
    (out / "liba.a").write_bytes(b"!<arch>")
    (out / "example").write_bytes(b"\x7fELF")
    (out / "build").mkdir()
    (out / "build" / "CMakeCache.txt").write_text("")
    folder.write(NEW, out)
    assert content(out) == NEW and only(tmp_path, "out")
    folder.write(NEW, out)
    assert content(out) == NEW


def test_an_empty_folder_and_a_link_are_filled(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    folder.write(OLD, tmp_path / "link")
    folder.write(NEW, tmp_path / "link")
    assert content(tmp_path / "real") == NEW and (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("strange", ["notes.txt", "a.c", "sub", "link.o"])
def test_what_fuse2c_did_not_write_stays(strange: str, tmp_path: Path) -> None:
    out = folder.write(OLD, tmp_path / "out")
    if strange == "sub":
        (out / strange).mkdir()
    elif strange == "link.o":
        (out / strange).symlink_to("sub")
    else:
        (out / strange).write_text("mine\n")
    before = sorted(p.name for p in out.iterdir())
    with pytest.raises(OutputError, match=strange):
        folder.write(NEW, out)
    assert sorted(p.name for p in out.iterdir()) == before and (out / "a.h").read_text() == OLD["a.h"]
    assert only(tmp_path, "out")


@pytest.mark.parametrize("there", [True, False], ids=["replacing", "new"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "ctrl-c"])
def test_a_failure_leaves_everything_as_it_was(error: BaseException, there: bool, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    if there:
        folder.write(OLD, out)
    original = Path.write_bytes

    def failing(self: Path, data: bytes) -> int:
        if self.name == "b.h":
            raise error
        return original(self, data)
    monkeypatch.setattr(Path, "write_bytes", failing)
    with pytest.raises((OutputError, KeyboardInterrupt)) as caught:
        folder.write(NEW, out)
    if isinstance(error, OSError):
        assert "No space left on device" in str(caught.value)
    assert content(out) == OLD if there else not out.exists()
    assert only(tmp_path, *["out"] * there)


def test_a_rename_that_fails_brings_the_old_folder_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = folder.write(OLD, tmp_path / "out")
    monkeypatch.setattr(folder, "_exchange", lambda a, b: False)
    original = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise PermissionError(1, "Operation not permitted")
        return original(self, target)
    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OutputError, match="not permitted"):
        folder.write(NEW, out)
    assert content(out) == OLD and only(tmp_path, "out")


@pytest.mark.parametrize("there", [True, False], ids=["replacing", "new"])
def test_killed_in_the_middle(there: bool, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if there:
        folder.write(OLD, out)
    process = start(SLOW, out)
    assert process.stdout is not None and process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert content(out) == OLD if there else not out.exists()
    assert [p for p in tmp_path.iterdir() if p.name != "out"]       # what the killed process could not clear away
    folder.write(NEW, out)
    assert content(out) == NEW


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux swaps two folders in one step")
def test_the_folder_is_there_at_every_moment(tmp_path: Path) -> None:
    code = ("import sys; from pathlib import Path; from fuse2c.codegen import folder; sys.path.insert(0, sys.argv[2]);"
            "from test_folder import OLD, NEW\nprint('start', flush=True)\n"
            "for i in range(200): folder.write((OLD, NEW)[i % 2], Path(sys.argv[1]))\nprint('end', flush=True)")
    out = folder.write(NEW, tmp_path / "out")
    process = start(code, out)
    assert process.stdout is not None and process.stdout.readline() == "start\n"
    looks, missing = 0, 0
    while process.poll() is None:
        looks += 1
        missing += not (out / folder.MANIFEST).is_file()
        time.sleep(0)
    assert process.stdout.read() == "end\n" and missing == 0 and looks > 10
