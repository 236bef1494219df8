"""The commands and flags of `ridgeline bench` that scripts of users hold: none is lost when a declaration changes."""

from ridgeline.bench.benchmark import available
from ridgeline.cli.bench_commands import OUTPUTS, benchmarks

FLAGS = {
    "acceptance": "--nx1 --elements",
    "allgather": (
        "--sizes --iterations --warm-up --seconds --in-place --sweep --among --placement "
        "--ranks-per-node --device"
    ),
    "allreduce": (
        "--sizes --iterations --warm-up --seconds --in-place --sweep --among --placement "
        "--ranks-per-node --device"
    ),
    "alltoall": (
        "--sizes --iterations --warm-up --seconds --in-place --sweep --among --placement "
        "--ranks-per-node --device"
    ),
    "bandwidth": (
        "--sizes --iterations --warm-up --pairing --pairs --method --window --all-pairs --between "
        "--size --seconds --serial --ranks-per-node --device"
    ),
    "barrier": "--iterations --warm-up --seconds --sweep --among --placement --ranks-per-node",
    "bcast": (
        "--sizes --iterations --warm-up --seconds --sweep --among --placement --ranks-per-node --device"
    ),
    "bibandwidth": "--sizes --iterations --warm-up --pairing --pairs --window --ranks-per-node --device",
    "bsp": (
        "--iterations -r --reads -w --writes -f --flops -c --communications --size --words --sweep --language"
    ),
    "congestion": "--fraction --seconds --congestor --ranks-per-node --rings --iterations --seed --device",
    "hpcg": "--nx --ny --nz --rt --npx --npy --npz --threads --dat --stream --output",
    "hpcg-iteration": "--nx --ny --nz --npx --npy --npz --implementation --path --iterations --repeats",
    "latency": (
        "--sizes --iterations --warm-up --pairing --pairs --method --window --all-pairs --between "
        "--size --seconds --serial --ranks-per-node --device"
    ),
    "multi-bandwidth": (
        "--sizes --iterations --warm-up --pairing --pairs --method --window --ranks-per-node --device"
    ),
    "multi-latency": "--sizes --iterations --warm-up --pairing --pairs --ranks-per-node --device",
    "nekbone": "--nx1 --elements --iterations --stream",
    "one-sided": (
        "--pattern --op --sync --test --sizes --window --pair --iterations --warm-up --every "
        "--messages --pieces --distribution --communicators --repeats --seed --device"
    ),
    "peak": "--threads --dtype --seconds --repeats --device",
    "pingpong": "--sizes --trials --warm-up --batch --language --ranks-per-node",
    "stream": "--threads --dtype --bytes --repeats --device",
    "tasking": "--item --trials --warm-up --workers --fibonacci --bytes --spawn",
    "transpose": "--shape --dealias --lines --precision --method -q --variables --process-grid --cycles --device",
}


def test_flags_stay():
    for name in FLAGS:
        flags = {flag for option in available()[name].offered for flag in option.flags}
        assert set(FLAGS[name].split()) <= flags, name


def test_every_benchmark_is_a_command_with_all_outputs():
    commands = {command.name: command for command in benchmarks.registered_commands}
    assert set(FLAGS) <= set(commands) == set(available())
    for command in commands.values():
        assert {"ranks", *OUTPUTS} <= set(vars(command.callback)["__signature__"].parameters)
