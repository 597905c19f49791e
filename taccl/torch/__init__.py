"""Plans in a PyTorch job, on whatever backend it has (the optional extra `torch`).

    collectives = taccl.torch.load("bundle")              # functions, for the default group
    collectives.all_reduce(gradient)

    group = taccl.torch.new_group("bundle")               # a process group, for DDP and FSDP
    DistributedDataParallel(model, process_group=group)

    taccl.torch.use("bundle")                             # or TACCL_PLANS=bundle in the environment
    torch.distributed.init_process_group("taccl")

A call for which there is a plan runs in its rounds (`taccl.backend.rounds`), as sends and receives of the
inner backend; any other call is the inner backend's. `counts` says what ran where.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:  # pragma: no cover - the suite has it, or skips
    raise ImportError("taccl.torch needs PyTorch: pip install 'taccl[torch]'") from error

from taccl.torch.collectives import Collectives, load
from taccl.torch.group import PlannedGroup, new_group, use

__all__ = ["Collectives", "PlannedGroup", "load", "new_group", "use"]
