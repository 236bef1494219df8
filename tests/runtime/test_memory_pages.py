"""Pages of a chosen size: zeros that can be written, at the start of a page, refused where Linux has none."""

import pytest

from ridgeline.runtime import memory_pages
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.memory_pages import HUGE_PAGE, huge_share, paged_zeros


@pytest.mark.parametrize("pages", ["default", "small", "huge"])
@pytest.mark.parametrize("n_bytes", [0, 1, HUGE_PAGE - 1, HUGE_PAGE + 1])
def test_zeros_of_every_size(pages, n_bytes):
    if pages == "huge" and not memory_pages._huge_pages_enabled():
        pytest.skip("the system has no huge pages")
    array = paged_zeros(n_bytes, pages)
    assert array.size == max(n_bytes, 1)
    assert not array.any()
    array[:] = 7
    assert pages == "default" or array.ctypes.data % HUGE_PAGE == 0
    if pages == "small":
        assert huge_share(array) in (0.0, None)


def test_huge_pages_that_the_system_does_not_offer(tmp_path, monkeypatch):
    setting = tmp_path / "enabled"
    monkeypatch.setattr(memory_pages, "_ENABLED", setting)
    with pytest.raises(ConfigError, match="--pages huge requires transparent huge pages"):
        paged_zeros(8, "huge")
    setting.write_text("always madvise [never]\n")
    with pytest.raises(ConfigError, match="Use --pages small"):
        paged_zeros(8, "huge")
    assert paged_zeros(8, "small").size == 8


def test_the_share_of_huge_pages_is_read_from_the_mapping_of_an_array(tmp_path, monkeypatch):
    array = paged_zeros(8, "small")
    begin = array.ctypes.data
    listing = tmp_path / "smaps"
    monkeypatch.setattr(memory_pages, "_SMAPS", listing)
    other = f"{0:x}-{begin:x} rw-p 0 0:0 0\nRss: 8 kB\nAnonHugePages: 8 kB\n"
    listing.write_text(
        other + f"{begin:x}-{begin + 4096:x} rw-p 0 0:0 0\nRss: 4096 kB\nAnonHugePages: 1024 kB\n"
    )
    assert huge_share(array) == 0.25
    listing.write_text(other)
    assert huge_share(array) is None
