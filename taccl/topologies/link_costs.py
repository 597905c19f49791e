"""What a link costs, as a machine file says it: an alpha, and a beta or a bandwidth."""

from __future__ import annotations

from taccl.model.units import MAX_ALPHA_US, MAX_BETA_US_PER_MB, MB, MIN_BETA_US_PER_MB
from taccl.topologies.strict_yaml import Node

COST_KEYS = ("alpha_us", "beta_us_per_mb", "bandwidth_gbps")


def read_cost(entry: Node, keys: dict[str, Node]) -> tuple[float, float]:
    """The alpha and beta of an entry. Raises TopologyError where they are missing or wrong."""
    if "alpha_us" not in keys:
        raise entry.error(f"{entry.name} lacks the key 'alpha_us'")
    return read_alpha(keys["alpha_us"]), read_beta(entry, keys)


def read_alpha(node: Node) -> float:
    """An alpha in microseconds."""
    return node.number(minimum=0, maximum=MAX_ALPHA_US)


def read_beta(entry: Node, keys: dict[str, Node]) -> float:
    """The one of beta and bandwidth that an entry has, as a beta in us per MB."""
    given = [keys[key] for key in ("beta_us_per_mb", "bandwidth_gbps") if key in keys]
    if len(given) != 1:
        verb = "lacks" if not given else "has both"
        joined = "beta_us_per_mb or bandwidth_gbps" if not given else "beta_us_per_mb and bandwidth_gbps"
        raise entry.error(f"{entry.name} {verb} {joined}", hint="give one of them")
    beta = given[0].number(above=0)
    if "bandwidth_gbps" in keys:
        beta = MB / (beta * 1e3)
    if not MIN_BETA_US_PER_MB <= beta <= MAX_BETA_US_PER_MB:
        raise given[0].error(f"{given[0].name} is out of range: {given[0].raw}")
    return beta
