import pytest

from taccl.analysis.exploration.sizes import sizes_of
from taccl.errors import UnitError


@pytest.mark.parametrize(
    ("requested", "sizes"),
    [
        ("1KB", (1024,)),
        ("1KB..8KB", (1024, 2048, 4096, 8192)),
        ("3KB..13KB", (3072, 6144, 12288)),
        ("4MB,1KB..2KB,1KB", (1024, 2048, 4 * 2**20)),
        (["1MB", 512], (512, 2**20)),
    ],
)
def test_a_range_doubles_and_a_list_is_sorted(
    requested: str | list[str | int], sizes: tuple[int, ...]
) -> None:
    assert sizes_of(requested) == sizes


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ("8KB..1KB", "ends before it begins"),
        ("1KB..", "not a size"),
        ("", "not a size"),
        ([], "no size is given"),
        ("1B..1TB,3B..1TB,5B..1TB,7B..1TB,9B..1TB,11B..1TB,13B..1TB", "at most"),
    ],
)
def test_what_is_no_range_is_one_error(requested: str | list[str], message: str) -> None:
    with pytest.raises(UnitError, match=message):
        sizes_of(requested)
