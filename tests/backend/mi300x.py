"""The measured node of 8 MI300X: its machine, and some of the programs that ran on it."""

import gzip
from functools import cache
from pathlib import Path

import numpy as np

from taccl.backend.msccl_xml import parse_document
from taccl.model.network import LogicalTopology
from taccl.topologies import load_topology

DATA = Path(__file__).parents[1] / "data"
MACHINE = DATA / "machines" / "mi300x-8.yaml"


@cache
def program(name):
    """A program by the name of its file."""
    content = gzip.decompress((DATA / "mi300x-8" / f"{name}.xml.gz").read_bytes())
    return parse_document(content, f"{name}.xml").program


@cache
def executor():
    return load_topology(MACHINE).executor


@cache
def mesh():
    """Its links, each its own port."""
    machine = load_topology(MACHINE)
    ends = [(link.src, link.dst) for link in machine.links]
    number = len(ends)
    return LogicalTopology(
        name=machine.name,
        node_of=np.zeros(machine.num_ranks, dtype=int),
        src=np.array([machine.rank_of[src] for src, _ in ends]),
        dst=np.array([machine.rank_of[dst] for _, dst in ends]),
        alpha_us=np.array([link.alpha_us for link in machine.links]),
        beta_us_per_mb=np.array([link.beta_us_per_mb for link in machine.links]),
        ports=tuple((link,) for link in range(number)),
        port_names=tuple(f"{src}->{dst}" for src, dst in ends),
        occupancy=machine.occupancy,
        executor=machine.executor,
    )
