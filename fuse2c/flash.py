"""Flash as it is linked: where estimates of the code cannot say whether a plan fits, it is compiled and measured.

A plan that does not fit gives way to a smaller one: the best by estimates that are as far off as this one was, then the
smallest by estimates. Without a cross compiler (and on the host, whose code says nothing) the estimates decide.
"""
from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from fuse2c import price, toolchain
from fuse2c.codegen import project
from fuse2c.codegen.folder import MANIFEST
from fuse2c.errors import DoesNotFit, LimitsConflict, PlanError
from fuse2c.measure import elf
from fuse2c.names import identifier
from fuse2c.options import Options
from fuse2c.plan import Plan
from fuse2c.target import Target

UNLIMITED = 2 ** 40             # bytes
MOST, BESIDE = 3, 4096          # times the estimated code, and bytes beside it, that no model was seen to exceed
RUNGS = 4                       # plans that are compiled at most, from the largest to the smallest, before all are refused
Compile = Callable[[Target, Options], Plan]


@dataclass(frozen=True, slots=True)
class Build:
    """How a model is compiled for its target; what was compiled is remembered by the hashes of its C."""

    opt: str = "-O3"
    cc: str | None = None
    known: dict[tuple[tuple[str, ...], str], elf.Sizes] = field(default_factory=dict, compare=False, repr=False)

    def sizes(self, plan: Plan) -> elf.Sizes:
        """What the plan's C takes. Raises BuildError."""
        cflags = plan.target.processor.cflags
        with tempfile.TemporaryDirectory(prefix="fuse2c_") as folder:
            root = project.write(plan, Path(folder) / "model")
            key = cflags, (root / MANIFEST).read_text(encoding="utf-8")
            if key not in self.known:
                self.known[key] = elf.of_model(root, identifier(plan.graph.name), cflags, opt=self.opt, cc=self.cc)
        return self.known[key]


def fitted(compile_: Compile, board: Target, options: Options, build: Build | None = None) -> Plan:
    """The best plan that fits into the board's flash as it is linked. Raises DoesNotFit, which names the least that is known.

    The figure that it names does not depend on the limit, so that exactly so much is enough, and a byte less is refused.
    """
    if not board.processor.cflags or shutil.which(toolchain.ARM_GCC) is None:
        return compile_(board, options)
    limit = _limit(board)
    plan, refusal = _tried(compile_, board, options)
    if refusal is not None and not isinstance(refusal, LimitsConflict) and getattr(refusal, "memory", "") != "flash":
        raise refusal               # not for its flash, as estimated
    if plan is not None and _surely_fits(plan, limit):
        return plan
    search = _Search(compile_, board, options, build or Build())
    if plan is None and not search.ladder:
        assert refusal is not None      # for another reason
        raise refusal
    for offer, sizes in itertools.chain(search.near(limit, plan), search.descent()):
        if sizes.flash <= limit:
            return _said(offer, board)
    raise _too_large(sizes, offer, board)


@dataclass
class _Search:
    """Plans and what they take."""

    compile_: Compile
    board: Target
    options: Options
    build: Build

    def near(self, limit: int, plan: Plan | None) -> Iterator[tuple[Plan, elf.Sizes]]:
        """`plan`, the best one for a limit by estimates (if there is one), and before it, where that may be better or the only
        one to fit, the best by estimates that are as far off as its own (or as that of the best for any amount of flash)."""
        first = plan or self.ladder[0]
        sizes = self.build.sizes(first)
        off = sizes.flash - _estimate(first)
        if off < 0 or sizes.flash > limit or plan is None:
            other = self.tried(limit - off)
            if other is not None:
                yield other, self.build.sizes(other)
        if plan is not None:
            yield plan, sizes

    def descent(self) -> Iterator[tuple[Plan, elf.Sizes]]:
        """The ladder, then from the smallest one on ever smaller plans; the last one is the least that is known."""
        found = [(plan, self.build.sizes(plan)) for plan in self.ladder]
        yield from found
        least: tuple[Plan, elf.Sizes] | None = min(found, key=lambda pair: pair[1].flash)
        while least is not None:
            yield least
            limit = least[1].flash - 1
            least = next((pair for pair in self.near(limit, self.tried(limit)) if pair[1].flash <= limit), None)

    def tried(self, limit: int) -> Plan | None:
        """The best plan for so much flash by estimates, if there is one."""
        known = self.__dict__.get("ladder")     # the cheap answer, where it is known
        if known and limit < min(map(_estimate, known)):
            return None
        return _tried(self.compile_, self.board.limited(None, max(limit, 0)), self.options)[0]

    @cached_property
    def ladder(self) -> list[Plan]:
        """Plans from the best one for any amount of flash to the smallest by estimates; [] if there is none."""
        unlimited, plain = self.board.limited(None, UNLIMITED), replace(self.options, flash=None)
        free, _ = _tried(self.compile_, unlimited, plain)
        if free is None:
            return []
        least = self.compile_(unlimited, replace(plain, optimize="flash=1", winograd="off"))
        most, end = _estimate(free), _estimate(least)
        limits = (end + (most - end) * i // RUNGS - 1 for i in range(RUNGS, 1, -1))
        between = [_tried(self.compile_, self.board.limited(None, limit), plain)[0] for limit in limits if limit >= end]
        found = {_estimate(p): p for p in (free, *(p for p in between if p is not None), least)}
        return list(found.values())


def _tried(compile_: Compile, board: Target, options: Options) -> tuple[Plan | None, PlanError | None]:
    """A plan, or why there is none."""
    try:
        return compile_(board, options), None
    except PlanError as error:
        return None, error


def check(plan: Plan, build: Build) -> Plan:
    """The same plan. DoesNotFit if it takes more flash than there is, as far as that can be measured and is not certain."""
    limit = _limit(plan.target)
    if not plan.target.processor.cflags or _surely_fits(plan, limit):
        return plan
    sizes = build.sizes(plan)
    if sizes.flash > limit:
        raise _too_large(sizes, plan, plan.target)
    return plan


def _limit(board: Target) -> int:
    return board.holding("weights")[1].bytes


def _estimate(plan: Plan) -> int:
    return plan.weight_bytes + price.code_bytes(plan)


def _surely_fits(plan: Plan, limit: int) -> bool:
    return plan.weight_bytes + MOST * price.code_bytes(plan) + BESIDE <= limit


def _said(plan: Plan, board: Target) -> Plan:
    """The plan with the board's own limit, and that it was measured."""
    plan = replace(plan, target=plan.target.limited(None, _limit(board)))
    return plan.decide("flash", ("measured", True, "it fits as linked, which the estimate does not tell: "
                                                   f"{_estimate(plan):,} bytes"))


def _too_large(sizes: elf.Sizes, plan: Plan, board: Target) -> DoesNotFit:
    """The error for the smallest plan."""
    name, limit = board.holding("weights")[0], _limit(board)
    largest = max(plan.steps, key=lambda s: sum(a.nbytes for a in plan.constants(s)))
    joined = plan.options.share_kernels != "always" and plan.inlined
    return DoesNotFit(f"{sizes.weights} bytes of weights and {sizes.code + sizes.library} of code, as linked, need "
                      f"{sizes.flash} bytes of {name}, {board.name} has {limit}: {sizes.flash - limit} too many",
                      node=largest.node.name, op=largest.node.op,
                      detail=("no other plan within the other limits takes less, by estimates",),
                      hint="--share-kernels always, " * bool(joined) + "-Os, int8 weights, or a target with more flash")
