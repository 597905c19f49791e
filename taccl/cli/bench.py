"""`taccl bench`: plans in a running job, next to what its library does by itself."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from taccl.analysis.exploration.sizes import sizes_of
from taccl.backend.execute.call import DTYPES
from taccl.cli.options import FILE, json_option
from taccl.cli.output import show_json
from taccl.cli.signals import ended_at_once
from taccl.deployment.jobs.benched import Benched
from taccl.deployment.jobs.plans import JobPlans, read_plans
from taccl.errors import TacclError
from taccl.support.files import write_atomically
from taccl.support.schemas import stamped

_SETTING = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@click.command
@click.argument("plans", type=FILE, nargs=-1, required=True)
@click.option("--backend", type=click.Choice(["gloo", "nccl", "mpi"]), default="gloo", show_default=True)
@click.option(
    "--sizes", default="1KB..16MB", show_default=True, help="As nccl-tests counts: 1KB..1GB, or a list."
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8"]),
    default="float32",
    show_default=True,
)
@click.option("--warmup", type=click.IntRange(min=0), default=5, show_default=True, help="Calls before.")
@click.option("--iterations", type=click.IntRange(min=1), default=20, show_default=True)
@click.option(
    "--pipelined", is_flag=True, help="More rounds, in which links of unlike speeds are busy at once."
)
@click.option("--csv", type=FILE, help="Times of the plans, for taccl topology fit --runs.")
@json_option
def bench(
    plans: tuple[Path, ...], backend: str, sizes: str, pipelined: bool, as_json: bool, **options: Any
) -> None:
    """Measure PLANS, the folder of a bundle or files, in a job that torchrun or mpirun started, next to the
    collectives of its library. Medians of the rank that takes longest; each result is compared with those.

    \b
    torchrun --nproc-per-node 8 --no-python taccl bench bundle --sizes 1KB..16MB
    mpirun -n 8 taccl bench bundle --backend mpi
    """
    csv = options.pop("csv")
    read = read_plans(plans[0] if len(plans) == 1 else plans, pipelined=pipelined)
    rows_of = _over_mpi if backend == "mpi" else _in_torch
    rows: list[Benched] = []
    speaks = False
    for rank, row in rows_of(read, backend, sizes_of(sizes), **options):
        speaks = rank == 0
        if row is None:
            if speaks and not as_json:
                _show_header(backend)
            continue
        rows.append(row)
        if speaks and not as_json:
            _show(row)
    if speaks and csv is not None:
        write_atomically(csv, "file,size_bytes,time_us,wrong\n" + "".join(map(_csv, rows)))
    if speaks and as_json:
        show_json(stamped("taccl.bench/1", {"backend": backend, "rows": [_values(row) for row in rows]}))


def _over_mpi(
    plans: JobPlans, backend: str, sizes: Sequence[int], *, dtype: str, **options: Any
) -> Iterator[tuple[int, Benched | None]]:
    """The rank of this process and a row each time; None before the first."""
    from taccl.deployment.mpi.bench import bench as measured
    from taccl.deployment.mpi.world import World

    world = World()

    if dtype not in DTYPES:
        raise TacclError(f"NumPy knows no {dtype}", hint="one of " + ", ".join(DTYPES))
    plans.check_ranks(world.size)
    yield world.rank, None
    for row in measured(plans, sizes, world, dtype=dtype, **options):
        yield world.rank, row


def _in_torch(
    plans: JobPlans, backend: str, sizes: Sequence[int], *, dtype: str, **options: Any
) -> Iterator[tuple[int, Benched | None]]:
    """As `_over_mpi`."""
    missing = [name for name in _SETTING if name not in os.environ]
    if missing:
        raise TacclError(
            f"this is no process of a job: {missing[0]} is not set",
            hint="torchrun --nproc-per-node 8 --no-python taccl bench ...",
        )
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        raise TacclError("taccl bench needs PyTorch", hint="pip install 'taccl[torch]'") from None
    from taccl.torch.bench import bench as measured

    warnings.filterwarnings("ignore", category=FutureWarning, module="torch")
    with _reports_the_job():
        plans.check_ranks(int(os.environ["WORLD_SIZE"]))
    device = "cpu"
    if backend == "nccl":
        if not torch.cuda.is_available():
            raise TacclError("NCCL needs GPUs, and torch sees none here", hint="--backend gloo")
        device = f"cuda:{int(os.environ.get('LOCAL_RANK', '0'))}"
        torch.cuda.set_device(device)
    with _reports_the_job(), ended_at_once():
        dist.init_process_group(backend)
    try:
        yield dist.get_rank(), None
        for row in measured(plans, sizes, device=device, dtype=getattr(torch, dtype), **options):
            yield dist.get_rank(), row
    finally:
        dist.destroy_process_group()


@contextmanager
def _reports_the_job() -> Iterator[None]:
    """Report a wrong environment of the job, or ranks that do not join it, as an error of the user."""
    try:
        yield
    except (ValueError, RuntimeError) as fault:
        setting = ", ".join(f"{name}={os.environ[name]}" for name in _SETTING)
        hint = f"{setting}: as torchrun sets them, with every rank running"
        raise TacclError(f"cannot join the job: {fault}", hint=hint) from None


def _show_header(backend: str) -> None:
    click.echo(f"#{'':>11} {'':>12} {'':>9} {backend:^26} {'plan':^33}")
    click.echo(
        f"#{'size':>11} {'count':>12} {'type':>9} {'time':>9} {'algbw':>8} {'busbw':>7}"
        f" {'time':>9} {'algbw':>8} {'busbw':>7} {'#wrong':>6}  collective, plan"
    )
    click.echo(f"#{'(B)':>11} {'(elements)':>12} {'':>9} " + f"{'(us)':>9} {'(GB/s)':>8} {'(GB/s)':>7} " * 2)


def _show(row: Benched) -> None:
    inner, plan = (
        f"{time_us:>9.1f} {algbw:>8.3f} {busbw:>7.3f}"
        for time_us in (row.inner_us, row.plan_us)
        for algbw, busbw in (row.bandwidths(time_us),)
    )
    click.echo(
        f"{row.size_bytes:>12} {row.elements:>12} {row.dtype:>9} {inner} {plan} {row.wrong:>6}  "
        f"{row.collective}, {row.plan}"
    )


def _csv(row: Benched) -> str:
    return f"{row.plan},{row.size_bytes},{row.plan_us:.3f},{row.wrong}\n"


def _values(row: Benched) -> dict[str, Any]:
    values = asdict(row)
    values.pop("elements")
    return {"ranks": values.pop("num_ranks"), **values}
