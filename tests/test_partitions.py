"""Which steps take turns row by row changes no byte of any result: random partitions of random networks."""
from __future__ import annotations

import tempfile
from pathlib import Path

from graphs import Builder, Sample, compile, outputs, samples
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from partitions import layered, partitioned, random_groups, streamed, unscheduled
from random_graphs import networks
from simulation import simulate

from fuse2c.check import HostModel
from fuse2c.plan import Plan


def before_streaming(b: Builder, folder: str, **options: object) -> Plan:
    """The plan as the pass `stream` gets it."""
    return unscheduled(compile(b, Path(folder), **options).path, **options)


def results(plan: Plan, rows: list[Sample]) -> list[bytes]:
    """All outputs of the generated C."""
    with HostModel(plan, "-O1") as host:
        return [host.run(row)[t].tobytes() for row in rows for t in plan.outputs]


@settings(max_examples=60, deadline=None)
@given(networks(), st.integers(0, 2 ** 16))
def test_random_partitions_are_sound(b: Builder, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plan = before_streaming(b, folder)
        for groups in (random_groups(plan, seed), random_groups(plan, seed + 1)):
            found = partitioned(plan, groups)
            assert found.peak is None or found.peak.rows <= found.peak.bytes <= found.working_bytes
            simulate(found, samples(found, 1)[0])


# No shrinking: each attempt compiles C.
@settings(max_examples=12, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(networks(), st.integers(0, 2 ** 16))
def test_random_partitions_give_the_same_bytes(b: Builder, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plan = before_streaming(b, folder)
        mixed = partitioned(plan, random_groups(plan, seed))
        assume(any(c.first > 0 for c in mixed.calls))
        rows = samples(plan, 2)         # the second finds in the arena what the first has left there
        want = results(layered(plan), rows)
        assert results(mixed, rows) == want and results(streamed(plan), rows) == want
        if all(not plan.graph.type(t).dtype.is_float for t in plan.outputs):
            reference = outputs(plan.graph, rows)
            assert [row[t].astype(plan.graph.type(t).dtype.numpy).tobytes() for row in reference for t in plan.outputs] == want


def test_rows_that_nobody_reads_are_computed_too(tmp_path: Path) -> None:
    """A stride may leave the last row out; what is traced and counted is the whole tensor all the same."""
    b = Builder()
    x = b.op("Conv", b.input((1, 2, 9, 5)), b.floats(3, 2, 3, 3), pads=[1, 1, 1, 1])
    b.output(b.op("GlobalAveragePool", b.op("Conv", x, b.floats(4, 3, 2, 3), strides=[3, 1])))
    plan = before_streaming(b, str(tmp_path))
    found = partitioned(plan, [range(len(plan.steps))])
    assert found.rings
    simulate(found, samples(found, 1)[0])
    rows = samples(found, 2)
    assert results(found, rows) == results(layered(plan), rows)


def test_a_result_in_the_ring_of_its_operand_outlives_the_operand(tmp_path: Path) -> None:
    """Rows of a sum that lies in its operand's ring are read later than the operand's own: the ring holds both."""
    b = Builder()
    x = b.op("Conv", b.input((1, 2, 9, 5)), b.floats(3, 2, 3, 3), pads=[1, 1, 1, 1])
    y = b.op("Relu", b.op("Conv", x, b.floats(3, 3, 1, 1)))
    total = b.op("Add", b.op("Conv", x, b.floats(3, 3, 3, 3), pads=[1, 1, 1, 1]), y)
    z = b.op("Conv", total, b.floats(3, 3, 5, 1), pads=[2, 0, 2, 0])
    b.output(b.op("GlobalAveragePool", b.op("Add", z, total)))
    plan = before_streaming(b, str(tmp_path))
    found = partitioned(plan, [range(len(plan.steps))])
    taken = [d for d in found.decisions if "in place" in d.reason]
    assert taken and found.rings
    simulate(found, samples(found, 1)[0])
    rows = samples(found, 2)
    assert results(found, rows) == results(layered(plan), rows)
