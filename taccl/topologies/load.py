"""A machine from what a user calls it: a name of the catalogue, or a YAML file."""

from __future__ import annotations

from pathlib import Path

from taccl.errors import TopologyError
from taccl.support.arguments import shown
from taccl.topologies.catalogue import build_topology, is_catalogue_name
from taccl.topologies.model import PhysicalTopology
from taccl.topologies.profile import Profile, load_profile, with_profile
from taccl.topologies.yaml_file import load_topology_file


def load_topology(
    source: str | Path, nodes: int | None = None, profile: str | Path | Profile | None = None
) -> PhysicalTopology:
    """The machine that `source` names.

    Parameters
    ----------
    source : a name that `build_topology` knows, such as `ndv2` or `torus:4x4`, or the path of a YAML
        file: a `Path`, or a text with a / in it or with .yaml, .yml or .json at its end, or that is
        no name of the catalogue but an existing file.
    nodes : how many nodes, in place of the machine's own number.
    profile : one of TACCL's profiles (or the path of one), whose costs replace the machine's.

    Raises
    ------
    FileError : a file that cannot be read.
    TopologyError : an unknown name, a faulty file, a number of nodes or a profile that does not fit.
    """
    topology = _machine(source, nodes)
    if profile is None:
        return topology
    return with_profile(topology, profile if isinstance(profile, Profile) else load_profile(profile))


def _machine(source: str | Path, nodes: int | None) -> PhysicalTopology:
    if names_a_file(source):
        return load_topology_file(source, nodes)
    return build_topology(str(source), nodes)


def names_a_file(source: str | Path) -> bool:
    """Whether `source` is meant as a YAML file, and not as a name of the catalogue.

    Raises
    ------
    TopologyError : it is neither text nor path.
    """
    if not isinstance(source, str | Path):
        raise TopologyError(f"a machine is a name, a file or a PhysicalTopology, not {shown(source)}")
    if isinstance(source, Path) or "/" in source or source.lower().endswith((".yaml", ".yml", ".json")):
        return True
    try:
        return not is_catalogue_name(source) and Path(source).exists()  # a directory is reported as such
    except (OSError, ValueError):  # no name of a file at all
        return False
