"""A job whose groups have plans, named by `use` or loaded for a group of gloo; none outlives its end.

python default_group.py FILE RANK SIZE PORT BACKEND
"""

import gc
import os
import sys
from weakref import ref

import torch
import torch.distributed as dist

import taccl.torch

file, rank, size, port, backend = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
taccl.torch.use(file)
dist.init_process_group(backend, rank=rank, world_size=size)
gc.disable()  # what lives on lives by a cycle
tensor = torch.full((64,), float(rank + 1))
if backend == "taccl":
    dist.all_reduce(tensor)
    counts = dict(dist.group.WORLD.counts)
else:
    calls = taccl.torch.load(file)
    calls.all_reduce(tensor)
    counts = dict(calls.counts)
    calls.close()
    del calls
group = ref(dist.group.WORLD)
dist.destroy_process_group()
sys.stdout.write(f"{tensor[0].item()} {counts} {group()}\n")
