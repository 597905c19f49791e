"""The XML of hwloc 1 to 3 (`lstopo topology.xml`): what the system and its drivers reported of one node."""

from taccl.topologies.importers.nodes.formats.hwloc.reader import looks_like, read

__all__ = ["looks_like", "read"]
