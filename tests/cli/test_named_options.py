"""Every option that a message or a page advises exists: `--points` that is `--nx1` helps nobody."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import typer
from typer.testing import CliRunner

from ridgeline.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "ridgeline"
PAGES = [
    path
    for folder, pattern in (("", "*.md"), ("docs", "*.md"), ("examples", "**/*"), ("centre", "**/*"))
    for path in sorted((ROOT / folder).glob(pattern))
    if path.is_file() and path.suffix in (".md", ".slurm", ".pbs", ".sh", ".toml", ".py")
]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# What other programs take, by the file that says so; "" is anywhere.
FOREIGN = {
    "runtime/node_topology.py": {"--of"},  # lstopo
    "runtime/provenance.py": {"--porcelain"},  # git
    "cli/machine_commands.py": {"--of"},
    "cli/command_line_options.py": {"--no-"},  # how the flag of an option begins that turns it off
    # Launchers; `ridgeline study`, which asks for sizes.
    "bench/hpcg/hpcg_options.py": {"--ntasks-per-node", "--ppn", "--weak", "--ranks"},
    "study/subjects.py": {"--no-"},
    "study/study_options.py": {"--account", "--mpi"},  # sbatch, srun
    "runtime/launcher.py": {"--mpi"},  # srun
    "validate/measure/logs.py": {"--no-pager", "--since"},  # journalctl
    "validate/doctor.py": {"--allow-run-as-root"},  # Open MPI's mpirun
    "study/submit.py": {"--job-name", "--array", "--nodes", "--ntasks", "--time", "--output", "--exclusive"}
    | {
        "--ntasks-per-node",
        "--cpus-per-task",
        "--account",
        "--partition",
        "--kill-on-bad-exit",
    },  # sbatch, srun
    "validate/measure/cores.py": {"--cpus-per-task"},  # srun
    "validate/binding.py": {"--ppn", "--cpu-bind", "--ntasks-per-node"},  # launchers
}


@cache
def commands() -> dict[tuple[str, ...], set[str]]:
    """Return the options of each command by its words: ("bench", "nekbone")."""

    def walk(command, words=()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
        yield words, {name for p in command.params for name in (*p.opts, *p.secondary_opts)} | {"--help"}
        for name, below in getattr(command, "commands", {}).items():
            yield from walk(below, (*words, name))

    return dict(walk(typer.main.get_command(app)))


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of the strings of a module that are no docstrings."""
    tree = ast.parse(path.read_text())
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.lineno, node.value


def options_of(module: str) -> set[str]:
    """Return the options that a module may name: of its own benchmarks if it is called like some, else of all."""
    parts = Path(module).with_suffix("").parts
    own = [
        found
        for words, found in commands().items()
        if words[:1] == ("bench",) and words[-1].startswith(parts[1])
    ]
    return set().union(*(own if parts[0] == "bench" and own else commands().values()))


def test_there_are_commands_and_pages() -> None:
    assert "--nx1" in commands()["bench", "acceptance"]
    assert "--rt" in options_of("bench/hpcg/geometry.py")
    assert "--nx1" not in options_of("bench/hpcg/geometry.py")
    assert ROOT / "README.md" in PAGES


def test_every_command_explains_itself() -> None:
    for words, options in commands().items():
        done = CliRunner().invoke(app, [*words, "--help"], prog_name="ridgeline")
        assert done.exit_code == 0, done.output
        assert f"Usage: {' '.join(('ridgeline', *words))} " in done.output
        shown = {name for name in options if name.startswith("-")}
        assert shown <= set(re.findall(r"--?[\w-]+", done.output)), words


def test_options_in_messages_exist() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {option}"
        for path in sorted(SOURCE.rglob("*.py"))
        for module in [str(path.relative_to(SOURCE))]
        for line, text in messages(path)
        for option in OPTION.findall(text)
        if option not in options_of(module) | FOREIGN.get(module, set())
    ]
    assert not wrong, "\n".join(wrong)


def test_options_of_commands_in_pages_exist() -> None:
    wrong = []
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for words, rest in re.findall(r"\bridgeline ([a-z]\w*(?: [a-z][\w-]*)?)([^`#|\"]*)", line):
                command = tuple(words.split())
                command = command if command in commands() else command[:1]
                known = set().union(
                    *(own for found, own in commands().items() if found[: len(command)] == command)
                )
                wrong += [
                    f"{page.relative_to(ROOT)}:{number}: ridgeline {words} has no {option}"
                    for option in OPTION.findall(rest)
                    if known and option not in known
                ]
    assert not wrong, "\n".join(wrong)


def test_no_help_shows_a_type_of_python():
    """Names of values are N, NUMBER, TEXT, FILE or choices, never <int range> or <list[str]>."""
    command = typer.main.get_command(app)
    found = []

    def walk(command, context, words) -> None:
        for parameter in command.get_params(context):
            name = (parameter.get_help_record(context) or ("",))[0]
            if re.search(r"<[^>|]*\b(str|int|float|list)\b", name):
                found.append((words, name))
        for word, below in getattr(command, "commands", {}).items():
            walk(below, type(context)(below, info_name=word, parent=context), f"{words} {word}")

    walk(command, command.make_context("ridgeline", ["doctor"], resilient_parsing=True), "")
    assert not found
