"""A job whose default group has plans, named by `use`.

python default_group.py FILE RANK SIZE PORT
"""

import os
import sys

import torch
import torch.distributed as dist

import taccl.torch

file, rank, size, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
taccl.torch.use(file)
dist.init_process_group("taccl", rank=rank, world_size=size)
tensor = torch.full((64,), float(rank + 1))
dist.all_reduce(tensor)
sys.stdout.write(f"{tensor[0].item()} {dict(dist.group.WORLD.counts)}\n")
dist.destroy_process_group()
