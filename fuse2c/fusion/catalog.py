"""The folds in the order in which they are applied: each stage until none of its folds changes anything."""
from __future__ import annotations

from fuse2c.fusion import before, blend, channels, columns, idioms, joins, moves, prune, quantise, tables, taps, upsample
from fuse2c.fusion import folds as basic
from fuse2c.fusion.dsl import Fold


def structure() -> tuple[Fold, ...]:
    """Before quantisation is looked at."""
    return idioms.IDIOMS + basic.STRUCTURE


def integers() -> tuple[Fold, ...]:
    """Q/DQ around operators."""
    return upsample.STORED + blend.BLEND + quantise.rules() + basic.STRUCTURE


def weights() -> tuple[Fold, ...]:
    """When all constants are known."""
    return (tables.rules() + basic.WEIGHTS + before.BEFORE + basic.STRUCTURE + channels.CHANNELS + moves.rules() + joins.JOINS
            + prune.PRUNED + taps.TAPS + upsample.REAL + columns.COLUMNS)


def folds() -> tuple[Fold, ...]:
    """All of them, once each."""
    return tuple({f.name: f for f in (*structure(), *integers(), basic.constants(), *weights())}.values())
