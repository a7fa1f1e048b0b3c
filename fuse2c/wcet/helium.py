"""Vector instructions of Armv8.1-M (MVE), which capstone 5 does not know: decoded by binutils' objdump.

The names are a closed list; `vectors` says what they do.
"""
from __future__ import annotations

import functools
import re
import shutil
from pathlib import Path

from fuse2c import toolchain
from fuse2c.errors import Refused
from fuse2c.wcet.operands import Word

CORES = ("cortex-m55",)
OBJDUMP = "arm-none-eabi-objdump"
LINE = re.compile(r"^\s*([0-9a-f]+):\t([0-9a-f ]+)\t(\S+)[ \t]*([^@;<\n]*)", re.M)
LOADS = frozenset("vldrb vldrh vldrw vldrd vld20 vld21 vld40 vld41 vld42 vld43".split())
STORES = frozenset("vstrb vstrh vstrw vstrd vst20 vst21 vst40 vst41 vst42 vst43".split())
COUNTING = frozenset("vidup vddup viwdup vdwdup vshlc".split())
"""These change the core register behind their vector."""
OTHERS = frozenset("""
vabav vabd vabs vadd vaddv vaddva vaddlv vaddlva vand vbic vcadd vcls vclz vcmla vcmp vcmul vctp vcvt vcvtb vcvta
vcvtn vcvtp vcvtm vdup veor vfma vfmas vfms vhadd vhcadd vhsub vmax vmaxa vmaxv vmaxav vmaxnm vmaxnma vmaxnmv vmaxnmav
vmin vmina vminv vminav vminnm vminnma vminnmv vminnmav vmla vmlas vmladavx vmladavax vmlav vmlava vmlaldavx
vmlaldavax vmlalv vmlalva vmlsdav vmlsdava vmlsdavx vmlsdavax vmlsldav vmlsldava vmlsldavx vmlsldavax vmov vmovlb
vmovlt vmovnb vmovnt vmul vmulh vmullb vmullt vmvn vneg vorn vorr vpnot vpsel vpst vpt vqabs vqadd vqdmladh vqdmladhx
vqdmlsdh vqdmlsdhx vqdmlah vqdmlash vqdmulh vqdmullb vqdmullt vqmovnb vqmovnt vqmovunb vqmovunt vqneg vqrdmladh
vqrdmladhx vqrdmlsdh vqrdmlsdhx vqrdmlah vqrdmlash vqrdmulh vqrshl vqrshrnb vqrshrnt vqrshrunb vqrshrunt vqshl vqshlu
vqsub vrev16 vrev32 vrev64 vrhadd vrinta vrintn vrintm vrintp vrintx vrintz vrmlalvh vrmlalvha vrmlaldavhx
vrmlaldavhax vrmlsldavh vrmlsldavha vrmlsldavhx vrmlsldavhax vrmulh vrshl vrshr vrshrnb vrshrnt vshl vshllb vshllt
vshr vshrnb vshrnt vsli vsri vsub
""".split())
ALIASES = frozenset("""
vmladav vmladava vmlaldav vmlaldava vrmlaldavh vrmlaldavha vqshrnb vqshrnt vqshrunb vqshrunt
""".split())
"""Other names of the same instructions: binutils 2.40 writes vmlav and so on, another version may not."""
NAMES = LOADS | STORES | COUNTING | OTHERS | ALIASES


@functools.cache
def listing(path: Path, sha256: str) -> dict[int, tuple[int, str, str]]:
    """Size, mnemonic and operands of every instruction of a program, as objdump has them. `sha256`: of the file, which may
    be another one later."""
    if shutil.which(OBJDUMP) is None:
        raise Refused("the program may have vector instructions, which binutils decodes", hint=f"put {OBJDUMP} on PATH")
    command = [OBJDUMP, "-d", "-m", "armv8.1-m.main", "-M", "force-thumb", str(path)]
    text = toolchain.run(command, f"{path.name} cannot be disassembled")
    return {int(m[1], 16): (len(m[2].replace(" ", "")) // 2, m[3], m[4].strip()) for m in LINE.finditer(text)}


def belongs(high: int, low: int) -> bool:
    """Whether two halfwords may be a vector instruction, VCTP or a long shift, which capstone mistakes for others."""
    shift = high >> 4 == 0xEA5 and (low & 0x800F == 0xF or low & 0xF == 0xD)
    return high >> 8 & 0xEC == 0xEC or shift or (high >> 6 == 0x3C0 and low == 0xE801)


def base_name(mnemonic: str) -> str:
    """The name without type and predicate: `vaddt.i32` is a `vadd` that a VPT block makes conditional."""
    name = mnemonic.partition(".")[0]
    return name if name in NAMES or name[-1] not in "te" or name[:-1] not in NAMES else name[:-1]


def lanes(ops: tuple) -> bool:
    """Whether a vector register, or a lane of one, is among the operands."""
    return any(getattr(op, "kind", "") == "q" or (isinstance(op, Word) and op.text.startswith(("q", "[")))
               for op in ops)
