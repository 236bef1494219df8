"""The entry point of the command line, with the list of its commands.

Nothing here imports anything heavy: each command imports what it needs when it is called.
"""

import os
import re
import sys

import typer

from ridgeline.cli.command_line_options import PanelGroup
from ridgeline.cli.machine_commands import bench, bind, doctor, validate
from ridgeline.cli.new_model import new_model
from ridgeline.cli.run_commands import check, compile_kernels, export, plot, report, run
from ridgeline.cli.start_commands import examples, explain, init
from ridgeline.cli.study_commands import predict, run_list_command, study, sweep
from ridgeline.runtime.environment import prepare_process
from ridgeline.runtime.errors import ConfigError, OutputError, RidgelineError, full_stop
from ridgeline.runtime.extras import of_missing_module
from ridgeline.runtime.launcher import end_with_launcher, may_print
from ridgeline.runtime.machine import limit_pools

# The error of a wrong command line, which Typer does not export.
_UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[1]

SUMMARY = "Run communication-intensive simulations, and measure the machine under them."
SIMULATE, LOOK, MEASURE, MACHINE = "Simulate", "Look", "Measure", "Machine"

app = typer.Typer(
    name="ridgeline",
    cls=PanelGroup,
    help=SUMMARY,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for panel, name, command, short_help in (
    (SIMULATE, "init", init, "Write a small case to begin with."),
    (SIMULATE, "examples", examples, "List the examples, or copy one."),
    (SIMULATE, "explain", explain, "Explain the settings of a model."),
    (SIMULATE, "check", check, "Check a case or a data set; run nothing."),
    (SIMULATE, "run", run, "Run a simulation."),
    (SIMULATE, "sweep", sweep, "Run a case over values of its settings."),
    (SIMULATE, "compile", compile_kernels, "Compile the kernels of a case beforehand."),
    (SIMULATE, "new-model", new_model, "Write a package with a model to change."),
    (LOOK, "plot", plot, "Draw anything that a run has written."),
    (LOOK, "export", export, "Write data for other people's programs."),
    (LOOK, "report", report, "Print a stored report, or compare two."),
    (MEASURE, "predict", predict, "Predict the speed of a case on a machine."),
    (MACHINE, "doctor", doctor, "Look for what is installed and missing."),
    (MACHINE, "validate", validate, "Find slow nodes and slow links."),
    (MACHINE, "bind", bind, "Print the best placement of ranks."),
):
    app.command(name, short_help=short_help, rich_help_panel=panel)(command)
app.command("run-list", hidden=True)(run_list_command)
app.add_typer(bench, name="bench", short_help="Run one benchmark.", rich_help_panel=MEASURE)
app.add_typer(
    study, name="study", short_help="Run scaling studies, and compare them.", rich_help_panel=MEASURE
)


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version.")
) -> None:
    """Print the version if that is all that is asked for."""
    if version:
        from ridgeline.version import VERSION

        typer.echo(f"ridgeline {VERSION}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _print_error(error: RidgelineError) -> None:
    if may_print():
        sys.stderr.write(f"error: {error}\n")


def _print_usage_error(error: typer.BadParameter) -> None:
    """Print what is wrong with the command line in one line, or the help of a group without a command."""
    text = error.format_message()
    if not text or type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    path = error.ctx.command_path if error.ctx else "ridgeline"
    sys.stderr.write(f"error: {full_stop(text)} `{path} --help` lists what is allowed.\n")


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
            code = app(prog_name="ridgeline", standalone_mode=False)
        finally:
            sys.stdout.flush()
        raise SystemExit(code)
    except _UsageError as error:
        # Every rank finds the same wrong option, and one of them prints the error.
        if may_print():
            _print_usage_error(error)
        raise SystemExit(ConfigError.exit_code) from None
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        # Otherwise Python fails once more when it flushes stdout at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(
                f"error: standard output cannot be written: {error.strerror}. Redirect it to another place.\n"
            )
        raise SystemExit(OutputError.exit_code) from None
    except ModuleNotFoundError as missing:
        # Pictures need Matplotlib, which many modules import at their top.
        absence = of_missing_module(missing)
        if absence is None:
            raise
        _print_error(absence)
        raise SystemExit(absence.exit_code) from None
    except RidgelineError as error:
        _print_error(error)
        raise SystemExit(error.exit_code) from None
