"""NCCL's and RCCL's topology XML: what a job saw of one node, or what somebody wrote to place devices."""

from taccl.topologies.importers.nodes.formats.nccl_topology.reader import looks_like, read

__all__ = ["looks_like", "read"]
