"""Calls by plans next to those of jax.lax, on the devices of this process.

python calls.py FILE ..     prints what differs, as JSON
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import taccl.jax
from taccl.errors import TacclError

collectives = taccl.jax.load(sys.argv[1:])
devices = jax.devices()
size = len(devices)
mesh = Mesh(np.array(devices), ("i",))
BOTH = {
    "reduce": (lambda x: collectives.all_reduce(x, "i"), lambda x: lax.psum(x, "i")),
    "max": (lambda x: collectives.all_reduce(x, "i", "max"), lambda x: lax.pmax(x, "i")),
    "gather": (lambda x: collectives.all_gather(x, "i"), lambda x: lax.all_gather(x, "i", tiled=True)),
    "scatter": (lambda x: collectives.reduce_scatter(x, "i"), lambda x: lax.psum_scatter(x, "i", tiled=True)),
    "all": (lambda x: collectives.all_to_all(x, "i"), lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True)),
}


def mapped(call, on=mesh):
    return jax.jit(jax.shard_map(call, mesh=on, in_specs=P("i"), out_specs=P("i"), check_vma=False))


unequal, calls = [], 0
for name, (ours, theirs) in BOTH.items():
    for rows, width, kind in ((12, 5, np.int8), (4, 7, np.float32)):
        whole = np.random.default_rng(1).integers(-4, 5, (size * rows, width)).astype(kind)
        calls += 1
        if not np.array_equal(mapped(ours)(whole), mapped(theirs)(whole)):
            unequal.append([name, rows, width, str(kind)])
for length in (1, 6):  # any length of an AllReduce
    whole = np.arange(size * length, dtype=np.int32)
    calls += 1
    if not np.array_equal(mapped(BOTH["reduce"][0])(whole), mapped(BOTH["reduce"][1])(whole)):
        unequal.append(["reduce", length])
whole = jnp.arange(float(size * 4))
gradients = [jax.grad(lambda x, call=call: (mapped(call)(x) ** 2).sum())(whole) for call in BOTH["reduce"]]
text = mapped(BOTH["reduce"][0]).lower(whole).compile().as_text()
try:
    mapped(BOTH["reduce"][0], Mesh(np.array(devices[:2]), ("i",)))(whole)
    refused = ""
except TacclError as error:
    refused = str(error)
said = {
    "unequal": unequal,
    "calls": calls,
    "gradient": bool(jnp.allclose(*gradients)),
    "permutes": text.count("collective-permute("),
    "refused": refused,
}
sys.stdout.write(json.dumps(said))
