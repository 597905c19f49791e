"""A job in which a rank dies between two calls; the other prints what it gets.

python killed.py FILE RANK PORT
"""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

import taccl.torch

file, rank, port = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
dist.init_process_group("gloo", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=30))
collectives = taccl.torch.load(file)
tensor = torch.ones(256)
collectives.all_reduce(tensor)
if rank == 1:
    time.sleep(0.2)
    os._exit(9)
try:
    for _ in range(1000):
        collectives.all_reduce(torch.ones(256))
        time.sleep(0.01)
except RuntimeError as error:
    sys.stdout.write(f"the backend's error: {type(error).__name__}\n")
    sys.stdout.flush()
os._exit(0)
