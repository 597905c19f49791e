"""Random sketches for a small machine of nodes, as strategies."""

from hypothesis import strategies as st

from taccl.sketch import Internode, Intranode, Relay, SenderFor, Sketch, Switch
from taccl.topologies import PhysicalTopology, parse_topology

GPUS = 3
_TEXT = """\
name: small
nodes: 2
node:
  gpus: 3
  switches: [hub]
  nics: 1
  links:
    - {from: gpus, to: hub, alpha_us: 1, beta_us_per_mb: 1}
    - {from: [gpu0], to: nic0, alpha_us: 0, beta_us_per_mb: 4}
fabric: {alpha_us: 2, beta_us_per_mb: 4}
"""
_SOME = st.lists(st.integers(0, GPUS - 1), min_size=1, max_size=GPUS, unique=True).map(tuple)


def small_machine(nodes: int = 2) -> PhysicalTopology:
    """Nodes of three GPUs behind a switch, with a NIC next to GPU 0."""
    return parse_topology(_TEXT, nodes)


@st.composite
def sketches(draw: st.DrawFn) -> Sketch:
    """A sketch that fits `small_machine`, and may cut off whatever it likes."""
    groups = draw(st.lists(_SOME, max_size=2))
    intranode = Intranode("switch", tuple(map(Switch, groups)), line=2) if groups else Intranode(line=2)
    strategy = draw(st.sampled_from(["none", "fully-connected", "direct-map", "relay", "relay", "relay"]))
    relays: tuple[Relay, ...] = ()
    if strategy == "relay":
        drawn = draw(st.dictionaries(st.integers(0, GPUS - 1), _SOME, min_size=1))
        relays = tuple(Relay(sender, drawn[sender], line=10 + sender) for sender in sorted(drawn))
    senders = [relay.sender for relay in relays] or list(range(GPUS))
    drawn = draw(st.dictionaries(st.sampled_from(senders), _SOME, max_size=2))
    entries = tuple(SenderFor(sender, drawn[sender], line=20 + sender) for sender in sorted(drawn))
    between = Internode(strategy, relays, entries, line=9)
    return Sketch("drawn", intranode=intranode, internode=between, path="drawn.yaml")
