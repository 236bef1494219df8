"""The entry point of the command line, with the list of its commands.

Nothing here imports anything heavy: each command imports what it needs when it is called.
"""

import os
import re
import sys

import typer

from ridgeline.cli.machine_commands import bench, bind, doctor, validate
from ridgeline.cli.run_commands import check, compile_kernels, explain, plot, report, run
from ridgeline.cli.study_commands import predict, run_list_command, study, sweep
from ridgeline.runtime.environment import prepare_process
from ridgeline.runtime.errors import ConfigError, OutputError, RidgelineError
from ridgeline.runtime.launcher import end_with_launcher, may_print
from ridgeline.runtime.machine import limit_pools

# The error of a wrong command line, which Typer does not export.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

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
app.command("run-list", hidden=True)(run_list_command)
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
    # The settings classes of models import NumPy, long before a rank knows its threads.
    limit_pools()
    # A shell expands ~ only at the beginning of a word, and so not in --json=~/run.json.
    sys.argv[1:] = [
        re.sub(r"^(--[\w-]+=)?(~/.*)", lambda match: (match[1] or "") + os.path.expanduser(match[2]), word)
        for word in sys.argv[1:]
    ]
    try:
        try:
            # Every rank finds the same wrong option, and one of them prints the error.
            code = app(standalone_mode=may_print())
        finally:
            sys.stdout.flush()
        raise SystemExit(code)
    except _UsageError:
        raise SystemExit(ConfigError.exit_code) from None
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        # Otherwise Python fails once more when it flushes stdout at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"error: cannot write to standard output: {error.strerror}; lead it elsewhere\n")
        raise SystemExit(OutputError.exit_code) from None
    except RidgelineError as error:
        if may_print():
            sys.stderr.write(f"error: {error}\n")
        raise SystemExit(error.exit_code) from None
