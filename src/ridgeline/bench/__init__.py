"""Benchmarks of the machine: its parts alone, and the patterns of the models. One folder for each family.

A folder with a `<family>_options.py` is a family of benchmarks (bench/benchmark.py). Folders of families outside the
package are named by the environment variable RIDGELINE_BENCHMARK_PATH, separated like those of PYTHONPATH, and by the
entry points "ridgeline.benchmarks" of installed packages (runtime/plugins.py).
"""

import os
from pathlib import Path

from ridgeline.runtime.plugins import BENCHMARKS, plugins

OWN = Path(__path__[0])
PLUGINS = plugins(BENCHMARKS)

# Python finds a package's modules in all folders of its __path__; the package's own families come first.
__path__ += filter(None, os.environ.get("RIDGELINE_BENCHMARK_PATH", "").split(os.pathsep))
__path__ += [str(plugin.folder) for plugin in PLUGINS]
