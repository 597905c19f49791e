"""A job of several processes on gloo, whose results are held against gloo's own.

python job.py FOLDER RANKS PORT [CALLS [cuda]]     writes FOLDER/results.json

With `cuda` calls are of tensors on one GPU that all processes share, by one-sided messages; and no model is
trained, as NCCL refuses two ranks on a GPU.
"""

import copy
import datetime
import json
import os
import random
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

import taccl.torch

warnings.filterwarnings("ignore", category=FutureWarning)  # names that torch 2.13 calls deprecated
TYPES = (torch.int32, torch.int64, torch.int8, torch.float32)
LENGTHS = (1, 3, 7, 8, 64, 100, 999)
REDUCTIONS = (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT)


def draws(collectives, rank, size, number, group, device):
    """Random calls, each by plans and by gloo; how many differ."""
    dice, unequal = random.Random(3), []
    for call in range(number):
        name, m, kind = (
            dice.choice(("reduce", "gather", "scatter", "all", "root")),
            dice.choice(LENGTHS),
            dice.choice(TYPES),
        )
        op, is_async, strided = dice.choice(REDUCTIONS), dice.random() < 0.5, dice.random() < 0.3
        seed = torch.Generator().manual_seed(1000 * call + rank)

        def some(length, seed=seed, kind=kind, strided=strided):
            values = torch.randint(-3, 4, (length, 2 if strided else 1), generator=seed).to(kind)
            return values.to(device)[:, 0]

        def ended(work, is_async=is_async):
            if is_async and work is not None:
                work.wait()

        if name == "reduce":
            mine = some(m)
            theirs = mine.cpu().clone()
            dist.all_reduce(theirs, op, group=group)
            ended(collectives.all_reduce(mine, op, async_op=is_async))
        elif name == "root":
            mine = some(m)
            theirs = mine.cpu().clone()
            dist.broadcast(theirs, group_src=call % size, group=group)
            ended(collectives.broadcast(mine, group_src=call % size, async_op=is_async))
        else:
            parts_in, parts_out = {"gather": (1, size), "scatter": (size, 1), "all": (size, size)}[name]
            given = some(parts_in * m).contiguous()
            mine, theirs = (torch.empty(parts_out * m, dtype=kind, device=d) for d in (device, "cpu"))
            if name == "gather":
                dist.all_gather_into_tensor(theirs, given.cpu().clone(), group=group)
                if call % 2:  # in place
                    mine[rank * m : (rank + 1) * m] = given
                    given = mine[rank * m : (rank + 1) * m]
                ended(collectives.all_gather_into_tensor(mine, given, async_op=is_async))
            elif name == "scatter":
                dist.reduce_scatter_tensor(theirs, given.cpu().clone(), op, group=group)
                if call % 2:
                    mine = given[rank * m : (rank + 1) * m]
                ended(collectives.reduce_scatter_tensor(mine, given, op, async_op=is_async))
            else:
                dist.all_to_all_single(theirs, given.cpu().clone(), group=group)
                ended(collectives.all_to_all_single(mine, given, async_op=is_async))
        if not torch.equal(mine.cpu(), theirs):
            unequal.append([call, name, m, str(kind)])
    return unequal


def streamed(collectives, rank, size):
    """How many sums are wrong that start behind slow work on a stream, and are used on it without a wait."""
    stream, wrong = torch.cuda.Stream(), 0
    for call in range(5):
        with torch.cuda.stream(stream):
            value = torch.zeros(1000, device="cuda")
            torch.cuda._sleep(20_000_000)
            value += rank + call
            future = collectives.all_reduce(value, async_op=True)
            other = torch.full((1000,), 2.0, device="cuda")
            future.wait()
            product = value * other
        stream.synchronize()
        wrong += int((product != 2.0 * sum(each + call for each in range(size))).sum())
    return wrong


def trained(wrap):
    """The weights of a small model after some steps on data of this rank's own."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 5))
    wrapped = wrap(copy.deepcopy(model))
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(20):
        optimizer.zero_grad()
        wrapped(torch.randn(8, 20, generator=data)).square().mean().backward()
        optimizer.step()
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in wrapped.parameters()]
    return torch.cat([each.detach().flatten() for each in whole])


def sharded(group):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    def wrap(model):
        mesh = DeviceMesh.from_group(group, "cpu")
        return fully_shard(model, mesh=mesh)

    return wrap


def misfits(group):
    """What becomes of calls whose sizes or types do not fit; the same on all ranks, so nobody waits."""
    said = []
    calls = (
        (dist.all_gather_into_tensor, torch.zeros(10), torch.ones(2)),
        (dist.reduce_scatter_tensor, torch.zeros(2), torch.ones(9)),
        (dist.all_to_all_single, torch.zeros(4), torch.ones(8)),
        (dist.all_gather_into_tensor, torch.zeros(8, dtype=torch.float64), torch.ones(2)),
    )
    for call, output, inputs in calls:
        try:
            call(output, inputs, group=group)
            said.append("")
        except (RuntimeError, ValueError) as error:
            said.append(str(error))
    return said


def in_a_group(files):
    """Models trained by a group with plans, next to gloo's; and plans for another group."""
    found = {}
    group = taccl.torch.new_group(files)
    data_parallel = torch.nn.parallel.DistributedDataParallel
    found["ddp"] = float(
        (trained(lambda m: data_parallel(m, process_group=group)) - trained(data_parallel)).abs().max()
    )
    found["fsdp"] = float((trained(sharded(group)) - trained(sharded(dist.group.WORLD))).abs().max())
    found["group_counts"] = sorted(f"{name} {who}" for name, who in group.counts)
    found["misfits"] = misfits(group)
    try:
        taccl.torch.new_group(files, ranks=[0])
        found["refused"] = ""
    except Exception as error:
        found["refused"] = str(error)
    return found


def work(rank, size, folder, port, calls, device):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ["TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES"] = "1"
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=120)
    dist.init_process_group("gloo", rank=rank, world_size=size, timeout=limit)

    files = sorted(Path(folder).glob("*.xml"))
    collectives = taccl.torch.load(files, one_sided=device == "cuda")
    found = {"unequal": draws(collectives, rank, size, calls, None, device)}
    found["numbers"] = {f"{name} {who}": number for (name, who), number in collectives.counts.items()}
    found["counts"] = sorted(found["numbers"])
    if device == "cuda":
        found["streamed"] = streamed(collectives, rank, size)
    else:
        found |= in_a_group(files)
    everybody = [None] * size
    dist.all_gather_object(everybody, found)
    if rank == 0:
        (Path(folder) / "results.json").write_text(json.dumps(everybody))
    dist.destroy_process_group()


if __name__ == "__main__":
    folder, ranks, port, *more = sys.argv[1:]
    calls, device = (more + ["40", "cpu"][len(more) :])[:2]
    words = (int(ranks), folder, int(port), int(calls), device)
    processes.start_processes(work, words, nprocs=int(ranks), start_method="fork")  # torch is imported once
