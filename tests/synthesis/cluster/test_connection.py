import socket
import sys
from collections.abc import Iterator

import pytest

from taccl.api import synthesize
from taccl.errors import ClusterError
from taccl.synthesis.cluster.connection import check_address, connected

distributed = pytest.importorskip("distributed")


@pytest.mark.parametrize(
    "address", ["", "host", "host:", "host:99999", "http://host:80", "a b:1", 8786, None]
)
def test_an_address_has_a_host_and_a_port(address: object) -> None:
    with pytest.raises(ClusterError, match="address of a scheduler"):
        check_address(address)


@pytest.mark.parametrize("address", ["host:8786", "tcp://10.0.0.1:8786", "tls://[::1]:8786/", " host:1 "])
def test_an_address_is_as_dask_prints_it(address: str) -> None:
    assert check_address(address) == address.strip().rstrip("/")


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """Something that listens and is no scheduler: it never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_what_never_answers_is_no_scheduler(listening: socket.socket) -> None:
    address = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
    with (
        pytest.raises(ClusterError, match=f"no Dask scheduler answers at {address}"),
        connected(address, reach_s=0.2),
    ):
        pass


def test_nobody_listens(listening: socket.socket) -> None:
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    listening.close()
    with pytest.raises(ClusterError, match="no Dask scheduler answers"), connected(address, reach_s=0.2):
        pass


def test_a_cluster_without_workers_is_told() -> None:
    with (
        distributed.LocalCluster(
            n_workers=0,
            processes=True,
            scheduler_port=0,
            dashboard_address=":0",
            silence_logs=100,
        ) as cluster,
        pytest.raises(ClusterError, match="the scheduler has no workers"),
        connected(cluster.scheduler_address),
    ):
        pass


def test_without_dask_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterError, match="needs Dask distributed") as reported:
        synthesize("allgather", topology="ring:3", size="3MB", scheduler="host:8786")
    assert reported.value.hint == "pip install 'taccl[cluster]'"
