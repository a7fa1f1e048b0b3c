"""Programs with vector instructions (MVE) for the mutation test of the worst-case analysis: each leaves a number, or nothing
that is known, in r0. Every vector instruction that is analysed is in one of them."""
from __future__ import annotations

FOUR, TWO = "{q0, q1, q2, q3}", "{q0, q1}"
# What only computes vectors, by operands: r0 is what it was.
COMPUTES = {
    "q0, q1, q2": """vabd.s8 vadd.i8 vand vbic veor vfma.f32 vfms.f32 vhadd.s8 vhsub.s8 vmax.s8 vmaxnm.f32 vmin.s8
        vminnm.f32 vmul.i8 vmulh.s8 vmullb.s8 vmullt.s8 vorn vorr vpsel vqadd.s8 vqdmladh.s8
        vqdmladhx.s8 vqdmlsdh.s8 vqdmlsdhx.s8 vqdmulh.s8 vqdmullb.s16 vqdmullt.s16 vqrdmladh.s8
        vqrdmladhx.s8 vqrdmlsdh.s8 vqrdmlsdhx.s8 vqrdmulh.s8 vqrshl.s8 vqshl.s8 vqsub.s8 vrhadd.s8
        vrmulh.s8 vrshl.s8 vshl.s8 vsub.i8""",
    "q0, q1, q2, #90": "vcadd.i8 vcmul.f32 vcmla.f32 vhcadd.s8",
    "q0, q1": """vabs.s8 vcls.s8 vclz.i8 vcvt.f32.s32 vcvtb.f32.f16 vcvta.s32.f32 vcvtn.s32.f32 vcvtp.s32.f32
        vcvtm.s32.f32 vmaxa.s8 vmaxnma.f32 vmina.s8 vminnma.f32 vmovlb.s8 vmovlt.s8 vmovnb.i16
        vmovnt.i16 vmvn vneg.s8 vqabs.s8 vqmovnb.s16 vqmovnt.s16 vqmovunb.s16 vqmovunt.s16 vqneg.s8
        vrev16.8 vrev32.8 vrev64.8 vrinta.f32 vrintn.f32 vrintm.f32 vrintp.f32 vrintx.f32 vrintz.f32""",
    "q0, q1, #3": """vqrshrnb.s16 vqrshrnt.s16 vqrshrunb.s16 vqrshrunt.s16 vqshlu.s8 vqshrnb.s16 vqshrnt.s16
        vqshrunb.s16 vqshrunt.s16 vrshr.s8 vrshrnb.i16 vrshrnt.i16 vshllb.s8 vshllt.s8 vshr.s8
        vshrnb.i16 vshrnt.i16 vsli.8 vsri.8""",
    "eq, q0, q1": "vcmp.i8", "q0, [r1, q1]": "vldrd.u64", "": "vpnot", "q0, #1": "vmov.i32",
}
# Results in r0, which are not followed.
RESULTS = {
    "r0, q0, q1": """vabav.s8 vmladav.s8 vmladava.s8 vmladavx.s8 vmladavax.s8 vmlav.s8 vmlava.s8 vmlsdav.s8
        vmlsdava.s8 vmlsdavx.s8 vmlsdavax.s8""",
    "r0, q0": """vaddv.s8 vaddva.s8 vmaxv.s8 vmaxav.s8 vmaxnmv.f32 vmaxnmav.f32 vminv.s8 vminav.s8 vminnmv.f32
        vminnmav.f32""",
    "r0, r1, q0": "vaddlv.s32 vaddlva.s32",
    "r0, r1, q0, q1": """vmlaldav.s16 vmlaldava.s16 vmlaldavx.s16 vmlalv.s16 vmlalva.s16 vmlsldav.s16 vmlsldava.s16
        vmlsldavx.s16 vmlsldavax.s16 vmlaldavax.s16 vrmlaldavh.s32 vrmlaldavha.s32 vrmlaldavhx.s32
        vrmlaldavhax.s32 vrmlsldavh.s32 vrmlsldavha.s32 vrmlsldavhx.s32 vrmlsldavhax.s32""",
    "r0, r1, q0[2], q0[0]": "vmov", "r0, q0[1]": "vmov.32", "r0, p0": "vmrs", "q0, r0, #4": "vidup.u32 vddup.u32",
    "q0, r0, r1, #4": "viwdup.u32 vdwdup.u32", "q0, r0, #5": "vshlc",
}
# A core register goes into a vector: a pointer is out of sight then.
TAKES = {
    "q0, q1, r1": """vadd.i8 vsub.i8 vmul.i8 vqadd.s8 vqsub.s8 vhadd.s8 vhsub.s8 vqdmulh.s8 vqrdmulh.s8 vqdmullb.s16
        vqdmullt.s16 vmla.s8 vmlas.s8 vqdmlah.s8 vqdmlash.s8 vqrdmlah.s8 vqrdmlash.s8 vfma.f32 vfmas.f32""",
    "q0, r1": "vshl.s8 vqshl.s8 vrshl.s8 vqrshl.s8 vdup.32", "eq, q0, r1": "vcmp.i8", "r1": "vctp.8", "p0, r1": "vmsr",
    "q0[2], q0[0], r1, r4": "vmov", "q0[2], q0[0], r4, r1": "vmov", "q0[1], r1": "vmov.32",
    "q0, r4, r1, #4": "viwdup.u32 vdwdup.u32",
    "q0, r2, #4": "vidup.u32 vddup.u32", "q0, r2, r5, #4": "viwdup.u32 vdwdup.u32", "q0, r2, #5": "vshlc",
}
POINTER = "sub sp, #16; movs r3, #9; str r3, [sp, #4]; mov r2, sp; mov r1, sp"
LOADED = "ldr r0, [sp, #4]; add sp, #16"
THROUGH_ANY = "ldr r2, [r0]; str r3, [r2]; " + LOADED


def shaped(table: dict[str, str]) -> list[str]:
    return [f"{name} {ops}" for ops, names in table.items() for name in names.split()]


MOVES = [(text, base) for text, base in (
    *((f"v{op}.{bits} q0, [r0], #16", 16) for op, bits in (
        ("ldrb", "u8"), ("ldrh", "u16"), ("ldrw", "u32"), ("strb", "8"), ("strh", "16"), ("strw", "32"))),
    *((f"v{way}2{k}.8 {TWO}, [r0]!", 32) for way in ("ld", "st") for k in range(2)),
    *((f"v{way}4{k}.8 {FOUR}, [r0]!", 64) for way in ("ld", "st") for k in range(4)))]
VALUES: list[tuple[str, int | None]] = [
    *((f"movs r0, #3; {text}", 3) for text in shaped(COMPUTES)),
    ("movs r0, #3; vpst; vaddt.i8 q0, q1, q2", 3), ("movs r0, #3; vpt.i8 eq, q0, q1; vaddt.i8 q0, q1, q2", 3),
    *((f"movs r0, #3; {text}", None) for text in shaped(RESULTS)),
    *((f"movs r4, #8; movs r1, #7; {POINTER}; {text}; {THROUGH_ANY}", None) for text in shaped(TAKES)),
    (f"{POINTER}; vpt.i8 eq, q0, r1; vaddt.i8 q0, q1, q2; {THROUGH_ANY}", None),
    (f"{POINTER}; vadd.i8 q0, q1, r4; {THROUGH_ANY}", 9),
    # The base moves behind what is loaded or stored, and a load changes nothing else.
    *((f"movs r0, #60; {text}; subs r0, #{50 + size}", 10) for text, size in MOVES),
    ("movs r0, #60; vldrw.u32 q0, [r0, #16]!; subs r0, #70", 6), ("movs r0, #6; vldrw.u32 q0, [r0, #16]", 6),
    ("movs r0, #6; vldrw.u32 q0, [r0, q1]", 6), ("movs r0, #6; vldrw.u32 q0, [q1, #16]!", 6),
    # A pointer in the frame that a load takes along is out of sight, too.
    *((f"{POINTER}; str r2, [sp]; {text.replace('r0', 'r2')}; {THROUGH_ANY}", None)
      for text, _ in MOVES if text.startswith("vld")),
    (f"{POINTER}; vldrw.u32 q0, [r2]; {THROUGH_ANY}", 9),
    (f"{POINTER}; str r2, [sp]; vldrw.u32 q0, [r4]; {THROUGH_ANY}", 9),
    *((f"{POINTER}; str r2, [sp]; {load} q0, [{base}, q1]; {THROUGH_ANY}", value)
      for load in ("vldrw.u32", "vldrd.u64") for base, value in (("r2", None), ("r4", 9))),
    # A store changes the frame where it may point there, by its base or by an address in a lane.
    *((f"{POINTER}; {text.replace('r0', 'r2')}; {LOADED}", None) for text, _ in MOVES if text.startswith("vst")),
    *((f"{POINTER}; {text} q1, [r2, q0]; {LOADED}", None) for text in ("vstrb.8", "vstrh.16", "vstrw.32", "vstrd.64")),
    (f"{POINTER}; vstrw.32 q1, [r2, q0, uxtw #2]; {LOADED}", None),
    (f"{POINTER}; vdup.32 q0, r2; vstrw.32 q1, [q0, #4]; {LOADED}", None),
    (f"{POINTER}; vstrw.32 q1, [q0, #4]; {LOADED}", 9), (f"{POINTER}; vstrw.32 q1, [r4, q0]; {LOADED}", 9),
    (f"{POINTER}; vstrw.32 q1, [r4]; {LOADED}", 9),
]
# Sizes of elements and turns: 128 bits an iteration.
LOOPS = [(f"push {{r7, lr}}; movs r0, #21; {start} lr, r0{skip}; 1: nop; letp lr, 1b; {end}pop {{r7, lr}}", 4 + 2 * turns)
         for size, turns in ((8, 2), (16, 3), (32, 6), (64, 11))
         for start, skip, end in ((f"dlstp.{size}", "", ""), (f"wlstp.{size}", ", 2f", "2: "))]
