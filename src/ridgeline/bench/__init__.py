"""Benchmarks of the machine: its parts alone, and the patterns of the models. One folder for each family.

A folder with a `<family>_options.py` is a family of benchmarks (bench/benchmark.py). Folders of families outside the
package are named by the environment variable RIDGELINE_BENCHMARK_PATH, separated like those of PYTHONPATH.
"""

import os

# Python finds a package's modules in all folders of its __path__; the package's own families come first.
__path__ += filter(None, os.environ.get("RIDGELINE_BENCHMARK_PATH", "").split(os.pathsep))
