"""A program executed on a machine whose executor is known: thread block by thread block, slice by slice."""

from taccl.backend.simulate.executor.prepared import ExecutorRun, Prepared, predict_us

__all__ = ["ExecutorRun", "Prepared", "predict_us"]
