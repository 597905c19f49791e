"""Makes the modules next to it (`strategies`) importable from the folders below; no test has a clock."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

# The first call of a compiled loop may take a second.
settings.register_profile("without a clock", deadline=None)
settings.load_profile("without a clock")


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test uses what the user's cache folder has."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TACCL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


#: A whole file of these waits for a job of several processes, which each worker makes for itself. So that no
#: other worker takes a part of the file when the rest is done, they come first.
_FIRST = ("torch", "jax", "mpi")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Jobs of several processes first."""
    items.sort(key=lambda item: item.path.parent.name not in _FIRST)
