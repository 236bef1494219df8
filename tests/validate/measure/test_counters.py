"""Error counters read from stored trees: a plain Linux node, a Slingshot node, InfiniBand, and nothing at all."""

import pytest

from ridgeline.validate.measure.counters import by_name, difference, read_counters, read_summary

SNMP = """\
Ip: Forwarding DefaultTTL InReceives
Ip: 1 64 186102
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn InSegs OutSegs RetransSegs InErrs OutRsts
Tcp: 1 200 120000 -1 185301 106254 41 2 1836
Udp: InDatagrams NoPorts InErrors
Udp: 797 0 5
"""
NETSTAT = """\
TcpExt: SyncookiesSent TCPTimeouts TCPLossProbes
TcpExt: 0 17 3
IpExt: InNoRoutes TCPTimeouts
IpExt: 0 99
"""
SUMMARY = """\
rank 0 says 7 network timeouts are nothing
MPICH Slingshot Network Summary: 28 network timeouts

MPICH Slingshot CXI Counter Summary:
Counter                        Samples          Min         (/s)         Mean         (/s)          Max         (/s)
lpe_net_match_priority_0            16       904695     180939.0      1960940     392188.0      2979960     595992.0
rh:nacks                            16            5          1.0           25          5.0           85         17.0
"""


@pytest.fixture
def tree(tmp_path):
    """Write files, path -> content, below a new root."""

    def write(files):
        for path, content in files.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{content}\n")
        return tmp_path

    return write


def test_plain_linux(tree):
    root = tree(
        {
            "sys/class/net/eth0/statistics/rx_errors": 3,
            "sys/class/net/eth0/statistics/tx_dropped": 4,
            "sys/class/net/eth0/statistics/rx_bytes": 10**12,
            "sys/class/net/eth0/carrier_down_count": 2,
            "sys/class/net/eth0/device/aer_dev_correctable": "RxErr 5\nBadTLP 1\nTOTAL_ERR_COR 6",
            "sys/class/net/lo/statistics/rx_errors": 9,
            "sys/class/net/bonding_masters": "",
            "proc/net/snmp": SNMP,
            "proc/net/netstat": NETSTAT,
            "sys/devices/system/edac/mc/mc0/ce_count": 12,
            "sys/devices/system/edac/mc/mc1/ue_count": 1,
            "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": 5,
            "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": 6,
            "sys/devices/system/cpu/cpufreq/thermal_throttle/core_throttle_count": 100,
        }
    )
    assert read_counters(root, {}) == {
        "eth0/rx_errors": 3,
        "eth0/tx_dropped": 4,
        "eth0/carrier_down_count": 2,
        "eth0/aer_dev_correctable": 6,
        "tcp/RetransSegs": 41,
        "tcp/InErrs": 2,
        "tcp/TCPTimeouts": 17,
        "mc0/ce_count": 12,
        "mc1/ue_count": 1,
        "cpu/core_throttle_count": 11,
    }


def test_slingshot_and_infiniband(tree):
    telemetry = "sys/class/cxi/cxi3/device/telemetry"
    root = tree(
        {
            f"{telemetry}/hni_pcs_uncorrected_cw": "17@1763728200.123456789",
            f"{telemetry}/pct_spt_timeouts": "2@1763728200.5",
            f"{telemetry}/hni_tx_ok_64": "99@1763728200.5",
            f"{telemetry}/atu_cache_evictions": "40@1763728200.5",
            f"{telemetry}/pct_retry_errors": "broken",
            "run/cxi/cxi3/spt_timeouts": 8,
            "run/cxi/cxi3/reset_counters": 1,
            "home/me/list": "# what I look at\natu_cache_evictions  # often\n\n",
            "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error": 6,
            "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data": 10**9,
        }
    )
    expected = {
        "cxi3/hni_pcs_uncorrected_cw": 17,
        "cxi3/pct_spt_timeouts": 2,
        "cxi3/retry/spt_timeouts": 8,
        "mlx5_0/port1/symbol_error": 6,
    }
    assert read_counters(root, {}) == expected
    asked = {"MPICH_OFI_CXI_COUNTER_FILE": "/home/me/list"}
    assert read_counters(root, asked) == expected | {"cxi3/atu_cache_evictions": 40}


def test_summary_of_cray_mpich(tree):
    expected = {
        "mpich/network_timeouts": 28,
        "mpich/lpe_net_match_priority_0": 2979960,
        "mpich/rh:nacks": 85,
    }
    assert read_summary(SUMMARY) == expected
    assert read_summary("MPICH Slingshot Network Summary: 0 network timeouts") == {
        "mpich/network_timeouts": 0
    }
    assert read_summary("no summary") == {}
    root = tree({"scratch/report_nid1": SUMMARY, "scratch/report_nid2": SUMMARY, "scratch/other": SUMMARY})
    found = read_counters(root, {"MPICH_OFI_CXI_COUNTER_REPORT_FILE": "/scratch/report"})
    assert found == expected | {"mpich/network_timeouts": 56}


def test_nothing_there_and_this_machine(tmp_path):
    settings = {"MPICH_OFI_CXI_COUNTER_FILE": "none", "MPICH_OFI_CXI_COUNTER_REPORT_FILE": "nowhere/x"}
    assert read_counters(tmp_path, settings) == {}
    assert all(isinstance(value, int) and value >= 0 for value in read_counters().values())


def test_difference_of_counters_that_grow_begin_and_start_again():
    before = {"same": 4, "grown": 10, "reset": 50, "gone": 3}
    after = {"same": 4, "grown": 12, "reset": 7, "new": 5, "zero": 0}
    assert difference(before, after) == {"grown": 2, "new": 5, "reset": 7}


def test_counters_of_nodes_by_name():
    before = [{"tcp/RetransSegs": 5, "eth0/rx_errors": 0}, {"tcp/RetransSegs": 1}, {}]
    after = [{"tcp/RetransSegs": 5, "eth0/rx_errors": 0}, {"tcp/RetransSegs": 90}, {}]
    assert by_name(before, after) == {
        "tcp/RetransSegs": {"before": [5, 1, None], "after": [5, 90, None], "grown": {1: 89}}
    }
