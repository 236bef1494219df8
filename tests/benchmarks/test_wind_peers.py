"""What the comparison with AMR-Wind writes for it and reads of it, on a stand-in that prints as it does."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from harness.graph500_peers import PeerUnavailable
from harness.wind_peers import OURS, AmrWind, values_of
from ridgeline.config.load import load_case
from ridgeline.models import case_class

PROGRAM = """\
#!/bin/bash
mkdir -p post_processing
cd post_processing
echo 'Time,   Q, Tsurf, ustar,   wstar,   L,   zi, abl_forcing_x, abl_forcing_y' > abl_statistics00000.txt
echo '3, 0, 300, 0.7484, 0, 0, 0, 0, 0' >> abl_statistics00000.txt
for z in 1 2 3 4; do echo "4, 3.0e+00, $z, 9.$z, 0.0, 0.0, 9.$z"; done > plane_average_velocity.txt
for seconds in 9 0.3 0.1 0.2; do
    echo '  MAC_projection                 2                     1                  1e-08'
    echo '  Nodal_projection               3                     1                  1e-08'
    echo "WallClockTime: 4 Pre: 1e-05 Solve: 0.02 Post: 6e-05 Total: $seconds"
done
"""


def build(folder: Path) -> Path:
    """Return a folder like a build, whose launcher runs the program once."""
    (folder / "CMakeCache.txt").write_text(f"MPIEXEC_EXECUTABLE:FILEPATH={folder}/mpiexec\n")
    for name, text in (("amr_wind", PROGRAM), ("mpirun", '#!/bin/bash\nshift 2\nexec "$@"\n')):
        (folder / name).write_text(text)
        os.chmod(folder / name, 0o755)
    return folder


def test_times_cycles_friction_velocity_and_wind_are_read(tmp_path: Path) -> None:
    found = AmrWind(build(tmp_path), tmp_path).run(4, 4, 2)
    assert found.seconds == 0.2  # the median without the first step
    assert found.friction_velocity == 0.7484
    np.testing.assert_array_equal(found.mean_wind, [9.1, 9.2, 9.3, 9.4])
    assert found.cycles == "MAC 2.0, Nodal 3.0"
    text = (tmp_path / "amr_wind.inp").read_text()
    assert "amr.max_grid_size_y = 2\n" in text
    # 1e-6 of 10 m/s over 250 m.
    tolerance = float(re.findall(r"mac_proj.mg_atol = (\S+)", text)[0])
    assert tolerance == pytest.approx(4e-8)


def test_a_folder_without_the_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PeerUnavailable, match="no amr_wind"):
        AmrWind(tmp_path, tmp_path)


def test_our_settings_are_valid(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(OURS.format(**values_of(16, 4, 1)))
    loaded = load_case(path, case_class)
    assert not loaded.warnings
    assert loaded.case.grid.shape == (16, 16, 16)
