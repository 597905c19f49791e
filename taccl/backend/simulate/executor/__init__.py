"""A program executed on a machine whose executor is known: thread block by thread block, slice by slice."""

from taccl.backend.simulate.executor.prepared import Prepared, Run, predict_us

__all__ = ["Prepared", "Run", "predict_us"]
