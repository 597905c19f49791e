"""What tells how nodes are joined, and the fabric with levels that it makes."""

from taccl.topologies.importers.clusters.imported import ImportedCluster, import_cluster

__all__ = ["ImportedCluster", "import_cluster"]
