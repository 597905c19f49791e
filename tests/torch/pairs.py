"""Jobs of two ranks that end as scripts do; each is a fork of this process, so that torch is imported once.

python pairs.py FOLDER '{"NAME": ["SCRIPT", "ARGUMENT", ..]}'     in arguments {rank} is the rank

What a rank says is in FOLDER/NAME-RANK; printed is how ranks ended.
"""

import json
import os
import runpy
import sys
from itertools import product
from pathlib import Path

import torch.distributed  # noqa: F401

import taccl.torch  # noqa: F401

jobs = json.loads(sys.argv[2])
started = dict[str, int]()
for job, rank in product(jobs, range(2)):
    if (number := os.fork()) == 0:
        said = os.open(Path(sys.argv[1]) / f"{job}-{rank}", os.O_WRONLY | os.O_CREAT)
        os.dup2(said, sys.stdout.fileno())
        sys.argv = [each.format(rank=rank) for each in jobs[job]]
        runpy.run_path(sys.argv[0], run_name="__main__")
        break
    started[f"{job}-{rank}"] = number
else:
    ended = {name: os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for name, each in started.items()}
    sys.stdout.write(json.dumps(ended))
