"""Services that a job left on Cassini interfaces, from the output of `cxi_service list` in libcxi's manual."""

from ridgeline.validate.measure.counters import read_counters
from ridgeline.validate.measure.cxi_services import count_services, read_services

DEFAULT = """\
{device}
----
 Total Device Resources
 ----------------------
 ACs:  1022
 TLEs: 2048
 --------------------------
 ID: 1 (DEFAULT)
   LNIs/RGID          : 1
   Enabled            : Yes
   System Service     : No
   Restricted Members : No
   Restricted TCs     : No
   Resource Limits    : No
"""
SERVICE = """\
 --------------------------
 ID: {}
   LNIs/RGID          : 1
   Enabled            : Yes
   System Service     : {}
   Restricted Members : Yes
   Restricted TCs     : Yes
   Resource Limits    : Yes
"""


def test_services_of_jobs_are_counted_and_those_of_the_system_are_not():
    default = DEFAULT.format(device="cxi0")
    assert count_services(default) == 0
    assert count_services(default + SERVICE.format(2, "Yes")) == 0
    assert (
        count_services(
            default + SERVICE.format(2, "No") + SERVICE.format(3, "Yes") + SERVICE.format(17, "No")
        )
        == 2
    )
    assert count_services("Failed to get list of services: No such device") == 0


def test_each_device_is_asked(tmp_path, monkeypatch):
    script = tmp_path / "cxi_service"
    script.write_text(
        "#!/bin/sh\n[ $1 = list ] && [ $2 = -d ] || exit 1\n[ $3 = cxi7 ] && exit 1\n"
        f"cat <<'END'\n{DEFAULT.format(device='$3')}{SERVICE.format(2, 'No')}END\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert read_services(["cxi0", "cxi7"]) == {"left/CXI services/cxi0": 1}
    (tmp_path / "sys/class/cxi/cxi3").mkdir(parents=True)
    assert read_counters(tmp_path, {}) == {"left/CXI services/cxi3": 1}
    script.unlink()
    assert read_services(["cxi0"]) == {}
