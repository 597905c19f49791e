"""A Dask cluster of two worker processes on this computer, for tests."""

from contextlib import AbstractContextManager

from distributed import LocalCluster


def two_workers() -> AbstractContextManager[LocalCluster]:
    """Each with one thread; the ports are free ones."""
    return LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        scheduler_port=0,
        dashboard_address=":0",
        silence_logs=100,
    )
