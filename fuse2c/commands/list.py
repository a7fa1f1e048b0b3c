"""The command `list`."""
from __future__ import annotations

import textwrap

import click

from fuse2c import report
from fuse2c import target as targets
from fuse2c.commands._common import table

MARGIN = 19         # of the names of targets


@click.command(name="list")
@click.argument("what", type=click.Choice(["ops", "targets", "rules"]))
def command(what: str) -> None:
    """List operators, targets or rules."""
    if what == "targets":
        for name in targets.known():
            t = targets.load(name)
            click.echo(f"{name:{MARGIN}} {t.title}")
            click.echo(textwrap.fill(f"{t.status}: {t.source}", 100, initial_indent=" " * (MARGIN + 1),
                                     subsequent_indent=" " * (MARGIN + 1)))
    elif what == "ops":
        table(report.operators())
    else:
        for kind, name, pays in report.all_rules():
            click.echo(f"{kind:5} {name:18} {pays}")
