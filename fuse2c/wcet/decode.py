"""Machine code to instructions, through a closed list: what is not on it is refused by name and address.

capstone's mnemonics and operands are used, its lists of registers read and written are not: in 5.0 they are wrong for
some instructions. It also takes Armv8.1-M's conditional selects for other instructions, so those are decoded here.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import capstone

from fuse2c.errors import Refused
from fuse2c.wcet import helium
from fuse2c.wcet.image import Image
from fuse2c.wcet.operands import PC, Imm, Mem, Operand, Reg, RegList, Unparsed, Word, parse

CONDITIONS = ("eq", "ne", "hs", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le")
INVERSE = {c: CONDITIONS[n ^ 1] for n, c in enumerate(CONDITIONS)}
SYNONYMS = {"cs": "hs", "cc": "lo"}
NAMES = {"ldmia": "ldm", "ldmfd": "ldm", "stmia": "stm", "stmea": "stm", "stmfd": "stmdb", "ldmea": "ldmdb",
         "addw": "add", "subw": "sub", "movw": "mov", "neg": "rsb", "vldmia": "vldm", "vstmia": "vstm", "sev": "nop",
         "yield": "nop", "clrex": "nop", "pld": "nop", "pldw": "nop", "pli": "nop"}
EXCLUSIVE_LOAD, EXCLUSIVE_STORE = "exclusive load", "exclusive store"
"""What loads and stores that are exclusive or ordered (Armv8-M) are called: no names of instructions begin like them."""
NAMES |= dict.fromkeys("ldrex ldrexb ldrexh lda ldab ldah ldaex ldaexb ldaexh".split(), EXCLUSIVE_LOAD)
NAMES |= dict.fromkeys("strex strexb strexh stl stlb stlh stlex stlexb stlexh".split(), EXCLUSIVE_STORE)
CORE = frozenset("""
mov movt mvn add adc sub sbc rsb mul mla mls and orr eor bic orn lsl lsr asr ror rrx cmp cmn tst teq
uxtb uxth sxtb sxth uxtb16 sxtb16 uxtab uxtah sxtab sxtah uxtab16 sxtab16 ubfx sbfx bfi bfc clz rbit rev rev16 revsh
udiv sdiv ldr ldrb ldrh ldrsb ldrsh ldrd ldm ldmdb str strb strh strd stm stmdb push pop
b bl blx bx cbz cbnz tbb tbh nop adr dmb dsb isb mrs msr cpsid cpsie ssat usat ssat16 usat16
smull umull smlal umlal umaal smlad smladx smuad smuadx smlsd smlsdx smusd smlald smlaldx
smlabb smlabt smlatb smlatt smulbb smulbt smultb smultt smlalbb smlalbt smlaltb smlaltt
smlawb smlawt smulwb smulwt smmul smmulr smmla smmlar smmls smmlsr
pkhbt pkhtb sadd16 sadd8 uadd8 uadd16 ssub16 ssub8 usub8 usub16 sel qadd qsub qdadd qdsub qadd8 qsub8 qadd16 qsub16
uqadd8 uqsub8 uqadd16 uqsub16 shadd8 shadd16 uhadd8 uhadd16 shsub16 uhsub16 usad8 usada8
csel csinc csinv csneg dls wls le dlstp wlstp letp asrl lsll lsrl sqrshrl uqrshll sqshll uqshll srshrl urshrl
""".split()) | {EXCLUSIVE_LOAD, EXCLUSIVE_STORE}
FLOATING = frozenset("""
vldr vstr vldm vstm vldmdb vstmdb vpush vpop vmov vmrs vmsr vadd vsub vmul vnmul vdiv vsqrt vabs vneg vcmp vcmpe vcvt vcvtr
vmla vmls vnmla vnmls vfma vfms vfnma vfnms vmaxnm vminnm vseleq vselge vselgt vselvs
vcvta vcvtn vcvtp vcvtm vrinta vrintn vrintp vrintm vrintx vrintz vrintr vcvtb vcvtt
""".split())
COMPARES = frozenset(("cmp", "cmn", "tst", "teq"))
COUNTED = ("le", "letp", "wls", "wlstp")
"""Branches of low-overhead loops."""
WAITING = "what waits for an event, or calls an operating system or a debugger, has no bound of its own: analyse what it calls"
LOST = "lost"
"""Stands for what is no instruction, or none that is analysed; its text is the reason, its kind the hint."""
WINDOW = 8192           # bytes decoded at a time


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `cond`: the condition it runs under, "" for always; `flags`: whether it sets them;
    `kind`: the suffix behind the first dot, such as "f32" or "s32.f32"."""

    address: int
    size: int
    name: str
    cond: str
    flags: bool
    ops: tuple[Operand, ...]
    kind: str
    text: str

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + self.size

    def __str__(self) -> str:
        return f"{self.text} at {self.address:#x}"


def jumps(i: Instruction) -> bool:
    """Whether it may transfer control, calls excepted."""
    if i.name in ("b", "bx", "cbz", "cbnz", "tbb", "tbh", *COUNTED):
        return True
    if i.name in ("pop", "ldm", "ldmdb"):
        listed = i.ops[-1]
        return isinstance(listed, RegList) and PC in listed.numbers
    return i.name in ("ldr", "mov", "add", "sub") and i.ops[0] == Reg(PC)


def ends(i: Instruction) -> bool:
    """Whether the instruction behind it is not reached from it."""
    return jumps(i) and not i.cond and i.name not in ("cbz", "cbnz", *COUNTED)


class Decoder:
    """Decodes runs of instructions on demand and keeps them."""

    def __init__(self, image: Image, core: str) -> None:
        self.image, self._vectors = image, core in helium.CORES
        self._known: dict[int, Instruction] = {}
        self.guarded: set[int] = set()          # instructions that an IT ahead makes conditional: no jump may lead there
        self._engine = capstone.Cs(capstone.CS_ARCH_ARM,
                                   capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS | capstone.CS_MODE_V8)

    def at(self, address: int) -> Instruction:
        """The instruction at an address that control reaches. Refused if there is none that is known."""
        if address not in self._known:
            try:
                self._run(address)
            except Refused:
                if address not in self._known:      # what lies further on may never be reached
                    raise
        return self._known[address]

    def _run(self, address: int) -> None:
        """Decode in order up to where control cannot pass on; IT blocks give their instructions conditions."""
        pending: list[str] = []
        for where, size, name, text in self._raw(address):
            if where in self._known and not pending:
                return
            if not self.image.is_code(where):
                raise Refused(f"control reaches data at {self.image.place(where)}")
            in_block = bool(pending)
            if in_block:
                self.guarded.add(where)
            cond = pending.pop(0) if pending else ""
            i = self._instruction(where, size, name, text, cond, in_block)
            self._known[where] = i
            if i.name == "it":
                pending = _it_block(name, text)
            if ends(i):
                return

    def _raw(self, address: int) -> Iterator[tuple[int, int, str, str]]:
        region = next((r for r in self.image.regions if r.executable and r.start <= address < r.end), None)
        if region is None:
            raise Refused(f"control reaches {address:#x}, where the program has no code")
        at = address
        while at < region.end:
            code = region.data[at - region.start:at - region.start + WINDOW]
            for item in self._engine.disasm_lite(code, at):
                own = self._special(region.data, item[0] - region.start, item[0])
                yield own or item
                at = item[0] + item[1]
                if own:
                    at = own[0] + own[1]
                    break
            else:
                own = self._special(region.data, at - region.start, at)
                if own is None:
                    raw = region.data[at - region.start:at - region.start + 4].hex(" ")
                    raise Refused(f"an instruction that is not known at {self.image.place(at)}: {raw}")
                yield own
                at += own[1]

    def _special(self, data: bytes, at: int, address: int) -> tuple[int, int, str, str] | None:
        """What is not left to capstone on Armv8.1-M."""
        if at + 4 > len(data):
            return None
        high, low = (int.from_bytes(data[k:k + 2], "little") for k in (at, at + 2))
        own = _armv81(high, low, address)
        if not self._vectors:
            if own is not None:
                raise Refused(f"{own[2]} at {self.image.place(address)} is an instruction of Armv8.1-M",
                              hint="is it the right --core?")
            return None
        if helium.belongs(high, low):
            size, name, text = helium.listing(self.image.path, self.image.sha256).get(address, (0, "", ""))
            if size != 4:
                raise Refused(f"an instruction that is not known at {self.image.place(address)}: {high:04x} {low:04x}")
            return address, size, name, text
        return own

    def _instruction(self, address: int, size: int, mnemonic: str, text: str, cond: str, in_block: bool) -> Instruction:
        first, _, kind = mnemonic.partition(".")
        if kind in ("w", "n"):
            kind = ""
        elif kind.startswith(("w.", "n.")):
            kind = kind[2:]
        shown = f"{mnemonic} {text}".strip()
        name = first
        if first.startswith("it") and set(first[2:]) <= {"t", "e"}:
            return Instruction(address, size, "it", "", False, (), "", shown)
        if in_block:
            name, cond = _conditional(first, cond)
        elif first not in CORE and first[0] == "b" and SYNONYMS.get(first[1:], first[1:]) in CONDITIONS:
            name, cond = "b", SYNONYMS.get(first[1:], first[1:])
        flags = name in COMPARES
        if not (name in CORE or name in FLOATING or name in NAMES) and name[-1] == "s" \
                and (name[:-1] in CORE or name[:-1] in NAMES):
            name, flags = name[:-1], True
        negated = name == "neg"
        name = NAMES.get(name, name)
        try:
            ops = parse(text)
        except Unparsed as error:
            raise Refused(f"operand {error} of {shown} at {self.image.place(address)} is not known") from None
        if self._vectors and helium.base_name(first) in helium.NAMES and (
                helium.lanes(ops) or first.startswith(("vp", "vctp"))):
            return Instruction(address, size, helium.base_name(first), "", False, ops, "mve", shown)
        if (name not in CORE and name not in FLOATING) or _foreign(name, ops):
            raise Refused(f"{shown} at {self.image.place(address)} is not among the instructions that are analysed",
                          hint=WAITING if name in ("wfi", "wfe", "svc", "bkpt") else "")
        return Instruction(address, size, name, cond, flags, (*ops, Imm(0)) if negated else ops, kind, shown)


def _conditional(first: str, cond: str) -> tuple[str, str]:
    """Name and condition of an instruction in an IT block: the text has the condition as a suffix, most of the time."""
    for suffix in (cond, *(old for old, new in SYNONYMS.items() if new == cond)):
        if first.endswith(suffix) and first != suffix:
            return first[:-2], cond
    return first, cond


def _foreign(name: str, ops: tuple[Operand, ...]) -> bool:
    """Operands outside the subset: vectors of MVE, and registers that make other instructions of the encoding."""
    if any(getattr(op, "kind", "") == "q" for op in ops):
        return True
    if name in ("orr", "orn", "lsl", "lsr", "asr", "ror", "and", "bic"):
        return any(isinstance(op, Reg) and op.n == PC for op in ops)
    return any(isinstance(op, Mem) and op.base == PC and op.update != "" for op in ops)


def _it_block(name: str, text: str) -> list[str]:
    cond = SYNONYMS.get(text.strip(), text.strip())
    return [cond, *(cond if letter == "t" else INVERSE[cond] for letter in name.partition(".")[0][2:])]


def _armv81(high: int, low: int, address: int) -> tuple[int, int, str, str] | None:
    """Conditional selects and low-overhead loops of Armv8.1-M, which capstone does not know or mistakes."""
    if high & 0xFFF0 == 0xEA50 and low & 0xC000 == 0x8000:
        name = ("csel", "csinc", "csinv", "csneg")[low >> 12 & 3]
        cond = low >> 4 & 15
        if cond >= len(CONDITIONS):
            return None
        n, m = (("zr" if r == PC else f"r{r}") for r in (high & 15, low & 15))
        return address, 4, name, f"r{low >> 8 & 15}, {n}, {m}, {CONDITIONS[cond]}"
    distance = ((low >> 1 & 0x3FF) << 1 | low >> 11 & 1) << 1
    vectors = high & 0xFFC0 == 0xF000 and high & 15 != PC
    size = f", #{8 << (high >> 4 & 3)}" if vectors else ""
    if (vectors or high & 0xFFF0 == 0xF040) and low == 0xE001:
        return address, 4, "dlstp" if vectors else "dls", f"lr, r{high & 15}{size}"
    if (vectors or high & 0xFFF0 == 0xF040) and low & 0xF001 == 0xC001:
        return address, 4, "wlstp" if vectors else "wls", f"lr, r{high & 15}{size}, #{address + 4 + distance:#x}"
    if high in (0xF00F, 0xF01F) and low & 0xF001 == 0xC001:
        return address, 4, "le" if high == 0xF00F else "letp", f"lr, #{address + 4 - distance:#x}"
    if high == 0xF02F and low & 0xF001 == 0xC001:           # LE without a counter only jumps
        return address, 4, "b", f"#{address + 4 - distance:#x}"
    return None


def target(i: Instruction) -> int:
    """Where a direct branch or call goes."""
    last = i.ops[-1]
    if not isinstance(last, Imm):
        raise Refused(f"{i} has no fixed target")
    return last.value


def word(op: Operand) -> str:
    """The text of an operand that is a condition or a status register."""
    return op.text if isinstance(op, Word) else ""
