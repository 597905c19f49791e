"""The XML of hwloc 1 to 3 (`lstopo topology.xml`): what the system and its drivers reported of one node.

It knows hwloc's objects and matrices, and what its backends put into them; no constant of a link.
"""

from taccl.topologies.importers.nodes.formats.hwloc.reader import looks_like, read

__all__ = ["looks_like", "read"]
