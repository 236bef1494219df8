"""A virtual environment of links, with what `pip install .[EXTRAS]` brings: made quickly, without a network."""

import re
import sysconfig
import venv
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


def required(*extras: str) -> dict[str, metadata.Distribution]:
    """Return the distributions that ours needs with some of its extras, and what they need, by name."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [("ridgeline", extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if (key, extra) in found:
            continue
        found[key, extra] = metadata.distribution(name)
        for text in found[key, extra].requires or []:
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                waiting += [(need.name, one) for one in ("", *need.extras)]
    return {name: distribution for (name, extra), distribution in found.items() if name != "ridgeline"}


def make_bare_environment(path: Path, *extras: str) -> Path:
    """Make the environment; return the folder of its programs, `python` and `ridgeline` among them."""
    venv.create(path, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(path), "platbase": str(path)}))
    for distribution in required(*extras).values():
        for file in distribution.files or []:
            parts = file.parts
            # A package as a whole; what lies outside, such as mpiexec, file by file.
            link = site / parts[0] if parts[0] != ".." else (site / file).resolve().parent / file.name
            target = Path(distribution.locate_file(parts[0] if parts[0] != ".." else file)).resolve()
            link.parent.mkdir(parents=True, exist_ok=True)
            if target.exists() and not link.exists():
                link.symlink_to(target)
    (site / "ridgeline.pth").write_text(f"{ROOT / 'src'}\n")
    program = path / "bin" / "ridgeline"
    program.write_text(f"#!{path / 'bin' / 'python'}\nfrom ridgeline.cli.main import main\nmain()\n")
    program.chmod(0o755)
    return program.parent
