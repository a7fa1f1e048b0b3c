"""Where the instructions of an inference go: by C function, from QEMU's own list of the code that it executes.

QEMU translates code in blocks without jumps inside, and can write down each block's instructions once and its address each
time. Products of the two are exact counts, of one inference, as the function's entry tells how many there were.
"""
from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from fuse2c import toolchain
from fuse2c.measure import qemu

_INSTRUCTION = re.compile(r"0x([0-9a-f]{8}):  ")
_BLOCK = re.compile(r"Trace \d+: \S+ \[\w+/(\w+)/\S+\] ?(\S*)")


def by_function(firmware: qemu.Firmware, board: qemu.Board, opt: str = "-O3", cc: str | None = None) -> dict[str, int]:
    """Instructions that one inference executes in each function, without those that it calls. BuildError like qemu.run."""
    toolchain.which(qemu.QEMU, "install qemu-system-arm")
    with tempfile.TemporaryDirectory(prefix="f2c_qemu_") as work:
        program = qemu.build(firmware, board, Path(work), opt, cc)
        command = [*qemu.command(board, program, counting=False), "-d", "in_asm,exec,nochain", "-D", "/dev/stderr"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, errors="replace") as run:
            assert run.stderr is not None
            return counted(run.stderr, f"{firmware.name}_{firmware.entry}")


def counted(lines: Iterable[str], entry: str) -> dict[str, int]:
    """Instructions by function for each time that `entry` was called, from the lines of QEMU's log."""
    sizes, block = dict[str, int](), list[str]()
    runs = Counter[tuple[str, str]]()
    for line in lines:
        if found := _BLOCK.match(line):
            if block:
                sizes[block[0]], block = len(block), []
            runs[found[1], found[2]] += 1
        elif found := _INSTRUCTION.match(line):
            block.append(found[1])
    calls = [n for (address, name), n in sorted(runs.items()) if name == entry]
    total = Counter[str]()
    for (address, name), n in runs.items():
        total[name] += n * sizes[address]
    return {name: n // calls[0] for name, n in total.items()} if calls else {}
