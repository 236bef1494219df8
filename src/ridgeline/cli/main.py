"""The entry point. Imports nothing heavy: each command imports what it needs when it is called."""

import os
import re
import sys

import typer

from ridgeline.cli.bench import bench
from ridgeline.cli.bind import bind
from ridgeline.cli.check import check
from ridgeline.cli.compile import compile_kernels
from ridgeline.cli.doctor import doctor
from ridgeline.cli.explain import explain
from ridgeline.cli.plot import plot
from ridgeline.cli.predict import predict
from ridgeline.cli.report import report
from ridgeline.cli.run import run
from ridgeline.cli.study import study
from ridgeline.cli.sweep import run_list, sweep
from ridgeline.cli.validate import validate
from ridgeline.runtime.environment import prepare_process
from ridgeline.runtime.errors import ConfigError, OutputError, RidgelineError
from ridgeline.runtime.launcher import end_with_launcher, may_print
from ridgeline.runtime.machine import limit_pools

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # of a command line; Typer has no name for it

app = typer.Typer(
    name="ridgeline",
    help="PDE simulations at the speed of the hardware, and the machine's limits beside them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(run)
app.command()(check)
app.command()(explain)
app.command("compile")(compile_kernels)
app.command()(doctor)
app.command()(plot)
app.command()(predict)
app.command()(report)
app.command()(sweep)
app.command("run-list", hidden=True)(run_list)
app.command()(validate)
app.command()(bind)
app.add_typer(bench, name="bench")
app.add_typer(study, name="study")


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version.")
) -> None:
    """PDE simulations at the speed of the hardware, and the machine's limits beside them."""
    if version:
        from ridgeline.version import VERSION

        typer.echo(f"ridgeline {VERSION}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line; a user's error ends it with one sentence and the error's exit code."""
    prepare_process()
    end_with_launcher()
    limit_pools()  # settings classes of models import NumPy, long before a rank knows its threads
    # A shell expands ~ at the beginning of a word alone: not in --json=~/run.json.
    sys.argv[1:] = [
        re.sub(r"^(--[\w-]+=)?(~/.*)", lambda found: (found[1] or "") + os.path.expanduser(found[2]), word)
        for word in sys.argv[1:]
    ]
    try:
        try:
            # Every rank finds the same wrong option; one of them says so.
            code = app(standalone_mode=may_print())
        finally:
            sys.stdout.flush()
        raise SystemExit(code)
    except _UsageError:
        raise SystemExit(ConfigError.exit_code) from None
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python fails once more when it flushes at its end
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"error: cannot write to standard output: {error.strerror}; lead it elsewhere\n")
        raise SystemExit(OutputError.exit_code) from None
    except RidgelineError as error:
        if may_print():
            sys.stderr.write(f"error: {error}\n")
        raise SystemExit(error.exit_code) from None
