"""Whether a library takes rings and trees as they are meant: every GPU of the node once in each.

Libraries look at little of this: NCCL was seen to take rank 7 on a machine of two GPUs without a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from taccl.backend.graphs.document import ROOT
from taccl.backend.graphs.found import FoundChannel, FoundGraph, GraphsDocument
from taccl.backend.machine.report import Collector, Facts, Location, Verification
from taccl.backend.machine.unequal import Requested


def verify_graphs(
    document: GraphsDocument,
    /,
    *,
    readers: Sequence[str] | None = None,
    collective: Requested | None = None,
    root: int | None = None,
) -> Verification:
    """The form of the file, and each channel against the GPUs of the node.

    Parameters
    ----------
    collective : says how many GPUs there are; None: as many as the file names.
    root : no graph has one for its collectives; ignored.
    """
    collector = Collector()
    num_ranks = document.num_ranks if collective is None else collective.num_ranks
    for fault in document.faults:
        collector.structure(fault.rule, fault.message, fault.hint, Location(line=fault.line))
    wanted = _wanted(document, num_ranks)
    for graph in document.graphs:
        for channel in graph.channels:
            _check(graph, channel, wanted, collector)
    if readers is not None and not set(readers) & set(document.runtimes):
        hint = f"it is for {', '.join(document.runtimes)}"
        collector.structure("other-library", f"{', '.join(readers)} reads no such file", hint)
    findings = collector.findings()
    right = not any(finding.severity == "error" for finding in findings)
    channels = sum(len(graph.channels) for graph in document.graphs)
    facts = Facts(
        collective="allreduce",
        num_ranks=num_ranks,
        num_steps=sum(len(channel.ranks) for graph in document.graphs for channel in graph.channels),
        num_thread_blocks=0,
        protocol="any",
        readers=dict.fromkeys(document.runtimes, "yes" if right else "no"),
        channels=channels,
    )
    return Verification(findings, facts, document.path)


def _wanted(document: GraphsDocument, num_ranks: int) -> set[int]:
    """The GPUs of the node: from 0 on, unless network cards say that there are nodes before it."""
    first = 0
    if document.has_nets:
        first = min((r for g in document.graphs for c in g.channels for r in c.ranks), default=0)
    return set(range(first, first + num_ranks))


def _check(graph: FoundGraph, channel: FoundChannel, wanted: set[int], collector: Collector) -> None:
    where, again = Location(line=channel.line), "each GPU of the node stands once in each channel"
    name = f"{graph.name}, {channel.name}"
    for rank, often in Counter(channel.ranks).items():
        if often > 1:
            collector.structure("gpu-twice", f"{name}: GPU {rank} stands in it {often} times", again, where)
    for rank in sorted(set(channel.ranks) - wanted):
        hint = "--ranks says how many GPUs there are; " + again
        collector.structure("no-such-gpu", f"{name}: there is no GPU {rank}", hint, where)
    if graph.whole:
        missing = sorted(wanted - set(channel.ranks))
        if missing:
            listed = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
            what = "would not close" if graph.shape == "ring" else "would not reach all"
            message = f"{name}: lacks GPU {listed}, so it {what}"
            collector.structure("gpu-missing", message, again, where)
    if graph.shape == "tree" and graph.whole and channel.parents.count(ROOT) != 1:
        collector.structure("roots", f"{name}: a tree has one root", again, where)
