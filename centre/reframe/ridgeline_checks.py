"""ReFrame checks that run Ridgeline's benchmarks and compare their results with references.

    reframe -C centre/reframe/settings.py -c centre/reframe/ridgeline_checks.py -r

References per system are in references.toml beside this file; RIDGELINE_REFERENCES names another file. The number
of ranks is --setvar num_tasks=N, of all checks or of one (--setvar AllToAll.num_tasks=128). If a result misses its
reference while others used more than `others_share` of a node's processors (--setvar others_share=0.1), the check is
skipped and says so; it does not fail.
"""

import json
import os
import tomllib
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import SanityError

FIGURES = "figures.json"


class Share(float):
    """How far a result may be from its reference. ReFrame prints it beside results with units: in percent here."""

    def __str__(self):
        """Return it as +20 %."""
        return f"{100 * self:+g} %"

    __repr__ = __str__

    def __format__(self, form):
        """Return it as +20 %, or as a number in the given format."""
        return format(float(self), form) if form else str(self)


def shown(figure):
    """Return a result with four significant digits."""
    return float(f"{figure:.4g}")


def references():
    """Return the references of all systems as {system: {check: {figure: (value, lower, upper, unit)}}}."""
    path = Path(os.environ.get("RIDGELINE_REFERENCES", Path(__file__).with_name("references.toml")))
    tables = tomllib.loads(path.read_text())

    def limits(entry):
        below, above = entry.get("below"), entry.get("above")
        lower = None if below is None else Share(-below)
        return entry["value"], lower, None if above is None else Share(above), entry["unit"]

    return {
        system: {
            check: {name: limits(entry) for name, entry in figures.items()}
            for check, figures in checks.items()
        }
        for system, checks in tables.items()
    }


class RidgelineBenchmark(rfm.RunOnlyRegressionTest):
    """One `ridgeline bench NAME --json FILE`; figures come from the JSON."""

    valid_systems = ["*"]
    valid_prog_environs = ["ridgeline"]
    executable = "ridgeline"
    benchmark = variable(str)
    options = variable(list, value=[])
    time_limit = "10m"
    num_tasks = 2
    others_share = variable(float, value=0.05)

    @run_after("init")
    def set_command(self):
        """Build the command line."""
        self.executable_opts = ["bench", self.benchmark, *map(str, self.options), "--json", FIGURES]
        self.env_vars = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}

    def known(self):
        """Return the references of this check on this system."""
        return references().get(self.current_partition.fullname, {}).get(type(self).__name__, {})

    @run_after("setup")
    def set_references(self):
        """Take the references of this system, if it has any."""
        self.reference = {self.current_partition.fullname: self.known()}

    @run_before("performance")
    def leave_out_a_busy_node(self):
        """Skip a check that misses a reference because others used a node, which says nothing about its health."""
        others = self.figures().get("others_share", 0.0)
        if others <= self.others_share:
            return
        for name, (value, lower, upper, unit) in self.known().items():
            if name in self.perf_variables:
                found = sn.evaluate(self.perf_variables[name])
                try:
                    sn.evaluate(sn.assert_reference(found, value, lower, upper))
                except SanityError:
                    reason = f"busy: others used {100 * others:.3g} % of a node's processors"
                    self.skip(f"{reason}, so {name} = {found} {unit} is not judged")

    def figures(self):
        """Return the benchmark's JSON."""
        return json.loads((Path(self.stagedir) / FIGURES).read_text())

    def row(self, **wanted):
        """Return the row with these values; an error names what was not found."""
        for row in self.figures()["rows"]:
            if all(row.get(key) == value for key, value in wanted.items()):
                return row
        raise LookupError(f"the benchmark {self.benchmark} measured nothing with {wanted}")

    @sanity_function
    def data_arrived(self):
        """Check that results were written and that data arrived as they were sent."""
        content = self.figures()
        return sn.all([sn.assert_true(content["verified"]), sn.assert_gt(len(content["rows"]), 0)])


@rfm.simple_test
class Latency(RidgelineBenchmark):
    """A message of 8 B between two ranks."""

    benchmark = "latency"
    options = ["--sizes", 8, 8]

    @performance_function("us")
    def latency(self):
        """Return the time of one way."""
        return shown(1e6 * self.row(size=8)["seconds"])


@rfm.simple_test
class MultiBandwidth(RidgelineBenchmark):
    """Half of the ranks send to the other half."""

    benchmark = "multi-bandwidth"
    options = ["--sizes", 1048576, 1048576]

    @performance_function("MB/s")
    def bandwidth(self):
        """Return the bandwidth of all pairs together."""
        return shown(self.row(size=1048576)["bandwidth"] / 1e6)


@rfm.simple_test
class AllToAll(RidgelineBenchmark):
    """Every rank sends to every other one."""

    benchmark = "alltoall"
    options = ["--sizes", 65536, 65536]

    @performance_function("MB/s")
    def bandwidth(self):
        """Return the aggregate bandwidth of all ranks."""
        return shown(self.row(size=65536)["bandwidth"] / 1e6)


@rfm.simple_test
class Allreduce(RidgelineBenchmark):
    """The sum of one number over all ranks."""

    benchmark = "allreduce"
    options = ["--sizes", 8, 8]

    @performance_function("us")
    def latency(self):
        """Return the mean over ranks."""
        return shown(1e6 * self.row(size=8)["seconds"])


@rfm.simple_test
class Stream(RidgelineBenchmark):
    """Memory bandwidth of all ranks together."""

    benchmark = "stream"

    @performance_function("GB/s")
    def triad(self):
        """Return the better rate of ordinary and streaming stores."""
        rates = [row["rate"] for row in self.figures()["rows"] if row["kernel"] == "triad"]
        return shown(max(rates) / 1e9)
