"""The command line: `fuse2c COMMAND`, see fuse2c/commands. Exit: 0 ok, 1 model or limits, 2 usage, 3 bug."""
from __future__ import annotations

import io
import sys

import click

from fuse2c import __version__
from fuse2c.commands import all_commands
from fuse2c.errors import Fuse2cError, InternalError, OutputError


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, commands=all_commands())
@click.version_option(__version__, prog_name="fuse2c")
def cli() -> None:
    """Compile an ONNX neural network into fused, static, analysable C."""


def main() -> None:
    """Run a command; a user's error is printed without a traceback."""
    debug = "--debug" in sys.argv[1:]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")       # names that the terminal's encoding lacks
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as e:
        e.show()
        sys.exit(2)
    except Exception as e:
        if debug:
            raise
        error = as_error(e)
        click.echo(str(error), err=True)
        sys.exit(error.exit_status)


def as_error(e: Exception) -> Fuse2cError:
    """What the user is told about an exception: its own text, what the system says, or that it is our bug."""
    if isinstance(e, Fuse2cError):
        return e
    if isinstance(e, OSError) and e.strerror:
        return OutputError(f"{e.strerror}: {e.filename}" if e.filename else e.strerror)
    return InternalError(f"{type(e).__name__}: {e}", hint="this is a bug in fuse2c; run again with --debug and report it")
