"""A machine file with the network of a cluster in place of its own.

The file is edited by its lines, so that comments and everything else in it stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from taccl.errors import TopologyError
from taccl.model.units import MB
from taccl.topologies import parse_topology
from taccl.topologies.importers.clusters.facts import ClusterFacts
from taccl.topologies.importers.clusters.plan import ClusterFile
from taccl.topologies.importers.clusters.section import Section, SectionCosts
from taccl.topologies.machines.figures import How
from taccl.topologies.strict_yaml import Node, parse_yaml

_KEYS = ("nodes", "domain", "fabric")


@dataclass(frozen=True)
class MachineFile:
    """What the network of a cluster must fit.

    Parameters
    ----------
    nics, switches : of one node, by name.
    costs : of the fabric, where the file has one alpha and one bandwidth.
    """

    text: str
    path: str | None
    nics: tuple[str, ...]
    switches: tuple[str, ...]
    costs: SectionCosts | None


def machine_file(text: str, path: str | None = None) -> MachineFile:
    """The parts of a machine file that matter here.

    Raises
    ------
    TopologyError : the machine has no node template, or is written as JSON.
    """
    root = parse_yaml(text, path, TopologyError)
    keys = root.keys()
    if "node" not in keys or keys["node"].kind != "mapping":
        raise root.error("a machine without 'node' has no nodes for a network between them", hint="node: ...")
    if text.lstrip().startswith("{"):
        raise root.error("this machine is written as JSON, which cannot be edited by its lines", hint="YAML")
    node = keys["node"].keys()
    return MachineFile(
        text,
        path,
        _names(node, "nics", "nic"),
        _names(node, "switches", "switch"),
        _costs(keys.get("fabric"), text.split("\n")),
    )


def _names(node: dict[str, Node], key: str, prefix: str) -> tuple[str, ...]:
    if key not in node:
        return ()
    value = node[key]
    if value.kind == "list":
        return tuple(item.raw for item in value.elements())
    return tuple(f"{prefix}{number}" for number in range(value.integer(minimum=0, maximum=4096)))


def _costs(fabric: Node | None, lines: Sequence[str]) -> SectionCosts | None:
    if fabric is None or fabric.kind != "mapping":
        return None
    keys = fabric.keys()
    if "alpha_us" not in keys or ("bandwidth_gbps" in keys) == ("beta_us_per_mb" in keys):
        return None
    if "bandwidth_gbps" in keys:
        gbps = keys["bandwidth_gbps"].number(above=0)
    else:
        gbps = MB / (keys["beta_us_per_mb"].number(above=0) * 1e3)
    speed = keys["bandwidth_gbps"] if "bandwidth_gbps" in keys else keys["beta_us_per_mb"]
    return SectionCosts(
        keys["alpha_us"].number(minimum=0), gbps, _known(keys["alpha_us"], lines), _known(speed, lines)
    )


def _known(value: Node, lines: Sequence[str]) -> tuple[How, str]:
    """How a number of a machine file is known: as the comment behind it says, else since it is there."""
    said = re.search(r"#\s*(read|inferred|assumed)(?::|\s)\s*(\S.*)$", lines[value.line - 1])
    if said is None:
        return "read", f"{value.source.path or 'the machine'}:{value.line}"
    how: How = "read" if said[1] == "read" else "inferred" if said[1] == "inferred" else "assumed"
    return how, said[2].strip()


def named_equally(cluster: ClusterFacts, nics: Sequence[str], hosts: Sequence[str] | None) -> bool:
    """Whether these hosts of a cluster (None: all with as many NICs) have NICs of all these names."""
    names_of: dict[str, set[str | None]] = {}
    for port in cluster.ports:
        names_of.setdefault(port.host, set()).add(port.nic)
    chosen = names_of.keys() if hosts is None else set(hosts)
    requested = [names for host, names in names_of.items() if host in chosen]
    requested = [names for names in requested if len(names) >= len(nics)]
    return bool(nics) and bool(requested) and all(set(nics) <= names for names in requested)


def check_fits(machine: MachineFile, planned: ClusterFile) -> None:
    """Raise TopologyError where the hosts have other NICs than the machine's node."""
    if planned.nics and len(planned.nics) != len(machine.nics):
        raise TopologyError(
            f"the node has {len(machine.nics)} NICs, but {planned.hosts[0]} has {len(planned.nics)} in the "
            f"cluster's file: {', '.join(planned.nics)[:100]}",
            path=machine.path,
            hint="name those that the node has with --nics",
        )
    is_one_domain = planned.domains is not None and len(planned.domains) == 1 and not planned.levels
    if not machine.nics and not is_one_domain:
        raise TopologyError("the node has no NIC for a network between nodes", path=machine.path)


def switch_of_domains(machine: MachineFile) -> str | None:
    """The switch of the node that may be one for several nodes; None where there is none, or several."""
    return machine.switches[0] if len(machine.switches) == 1 else None


def merged(machine: MachineFile, section: Section) -> str:
    """The machine's text with the section's keys in place of its own.

    Raises
    ------
    TopologyError : the result is no machine, for example since it has too many GPUs.
    """
    lines = machine.text.splitlines(keepends=True)
    kept: list[str] = []
    new = {"nodes": section.nodes, "domain": section.domain, "fabric": section.fabric}
    if not machine.nics:
        new["fabric"] = ""  # one domain of NVLinks joins all nodes
    if not section.has_levels and re.search(r"^fabric\s*:", machine.text, re.MULTILINE):
        new["fabric"] = ""
    new = {key: text for key, text in new.items() if text}  # what the cluster's file does not tell stays
    replaced = frozenset(new)
    dropping = False
    for line in lines:
        key = re.match(r"[\"']?([A-Za-z_]+)[\"']?\s*:", line)
        if key is not None and key[1] in replaced:
            dropping = True
            kept.append(new.pop(key[1], ""))
        elif dropping and (not line.strip() or line[0] in " \t"):
            continue
        else:
            dropping = False
            kept.append(line)
    text = "".join(kept)
    text += "" if text.endswith("\n") else "\n"
    text += "".join(new[key] for key in _KEYS if key in new)
    try:
        parse_topology(text)
    except TopologyError as fault:
        raise TopologyError(
            f"with this network the machine cannot be: {fault.message}",
            path=machine.path,
            hint=fault.hint or "fewer hosts, with --hosts or --nodes",
        ) from None
    return text
