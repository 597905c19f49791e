"""One rank of the testbed's benchmark: rounds and gloo's own collectives by torch; Open MPI's under mpirun.

python -m benchmarks.testbed_rank CASES OUT       in every namespace of a testbed
python -m benchmarks.testbed_rank --mpi CASES OUT     under the mpirun that rank 0 starts
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taccl.backend.rounds.rounds import Rounds
from taccl.deployment.jobs.benched import Stopwatch, buffer_elements
from taccl.deployment.jobs.steps import run_steps, steps_of

_AHEAD_S = 0.08


@dataclass(frozen=True)
class Case:
    """A call: `who` is measured; of a plan the rounds."""

    who: str
    collective: str
    size_bytes: int
    rounds: Rounds | None
    iterations: int = 5


def by_torch(cases: list[Case], out: Path) -> None:
    """Rounds over gloo, and gloo's own."""
    import torch
    import torch.distributed as dist

    from taccl.torch.messages import messages_of

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))

    def ready() -> None:
        start = torch.tensor([time.monotonic() + _AHEAD_S], dtype=torch.float64)
        dist.barrier()
        dist.broadcast(start, 0)
        time.sleep(max(0.0, float(start) - time.monotonic()))

    def slowest(times: list[float]) -> list[float]:
        found = torch.tensor(times, dtype=torch.float64)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return list(found.tolist())

    own = {
        "allgather": dist.all_gather_into_tensor,
        "reducescatter": dist.reduce_scatter_tensor,
        "alltoall": dist.all_to_all_single,
        "allreduce": lambda output, given: dist.all_reduce(output.copy_(given)),
    }
    for case in cases:
        inputs, outputs = buffer_elements(case.collective, case.size_bytes // 4, size)
        given = torch.randint(-8, 9, (inputs,), generator=torch.Generator().manual_seed(rank)).float()
        call: Any = own[case.collective]
        if case.rounds is not None:
            steps, chunk = steps_of(case.rounds, rank), case.size_bytes // 4 // case.rounds.chunks
            scratch, exchange = torch.empty(steps.scratch * chunk), messages_of(backend)

            def call(
                output: Any, given: Any, s: Any = steps, x: Any = scratch, c: int = chunk, e: Any = exchange
            ) -> None:
                run_steps(s, (given, output, x), c, torch.add, e)

        watch = Stopwatch(ready, slowest, lambda: None, 1, case.iterations)
        kept: list[Any] = []

        def fresh(outputs: int = outputs, given: Any = given, kept: list[Any] = kept) -> tuple[Any, Any]:
            kept[:] = [torch.zeros(outputs)]
            return kept[0], given

        took_us, _ = watch.median_us(call, fresh)
        wanted = torch.zeros(outputs)
        own[case.collective](wanted, given)
        wrong = (wanted != kept[0]).sum()
        dist.all_reduce(wrong)
        if rank == 0:
            _say(out, case, took_us, int(wrong))
    dist.destroy_process_group()


def by_mpi(cases: list[Case], out: Path) -> None:
    """Open MPI's own collectives."""
    import numpy as np

    from taccl.deployment.mpi.world import World

    world = World()
    comm = world.comm
    calls = {
        "allgather": lambda output, given: comm.Allgather(given, output),
        "reducescatter": lambda output, given: comm.Reduce_scatter_block(given, output),
        "alltoall": lambda output, given: comm.Alltoall(given, output),
        "allreduce": lambda output, given: comm.Allreduce(given, output),
    }

    def ready() -> None:
        comm.Barrier()
        start = comm.bcast(time.monotonic() + _AHEAD_S, 0)
        time.sleep(max(0.0, start - time.monotonic()))

    def slowest(times: list[float]) -> list[float]:
        found = np.array(times)
        comm.Allreduce(world.mpi.IN_PLACE, found, world.mpi.MAX)
        return list(found.tolist())

    for case in cases:
        inputs, outputs = buffer_elements(case.collective, case.size_bytes // 4, world.size)
        buffers = np.zeros(outputs, np.float32), np.ones(inputs, np.float32)
        watch = Stopwatch(ready, slowest, lambda: None, 1, case.iterations)
        took_us, _ = watch.median_us(calls[case.collective], lambda buffers=buffers: buffers)
        if world.rank == 0:
            _say(out, case, took_us, 0)


def start_mpi(size: int, cases: Path, out: Path) -> None:
    """Start mpirun from rank 0's namespace; every other one is a host that is entered."""
    agent = out.with_suffix(".sh")
    agent.write_text(
        '#!/bin/sh\nhost=$1; shift\nexec ip netns exec d${host#h} unshare -u sh -c "hostname $host; $*"\n'
    )
    agent.chmod(0o755)
    settings = {
        "plm_rsh_agent": str(agent),
        "plm_rsh_no_tree_spawn": "1",
        "oob_tcp_if_include": "ctl",
        "btl": "tcp,self",
        "pml": "ob1",
        "btl_tcp_if_include": "me",
        "mpi_yield_when_idle": "1",
    }
    words = [word for key, value in settings.items() for word in ("--mca", key, value)]
    hosts = ",".join(f"h{rank}" for rank in range(size))
    passed = [word for name in ("PYTHONPATH", "PATH") for word in ("-x", name)]
    run = [
        "mpirun",
        "--allow-run-as-root",
        "-n",
        str(size),
        "--host",
        hosts,
        *words,
        "--bind-to",
        "none",
        *passed,
    ]
    run += [sys.executable, "-m", "benchmarks.testbed_rank", "--mpi", str(cases), str(out)]
    subprocess.run(["unshare", "-u", "sh", "-c", 'hostname h0; exec "$@"', "sh", *run], check=True)


def _say(out: Path, case: Case, took_us: float, wrong: int) -> None:
    row = {
        "who": case.who,
        "collective": case.collective,
        "size_bytes": case.size_bytes,
        "took_us": took_us,
        "wrong": wrong,
    }
    with out.open("a") as file:
        file.write(json.dumps(row) + "\n")


def main(words: list[str]) -> None:
    """As the module says."""
    is_mpi = words[0] == "--mpi"
    path, out = (Path(word) for word in words[-2:])
    cases: list[Case] = pickle.loads(path.read_bytes())
    own = [case for case in cases if case.who == "Open MPI"]
    if is_mpi:
        by_mpi(own, out)
        return
    by_torch([case for case in cases if case.who != "Open MPI"], out)
    if own and os.environ["RANK"] == "0":
        start_mpi(int(os.environ["WORLD_SIZE"]), path, out)


if __name__ == "__main__":
    main(sys.argv[1:])
