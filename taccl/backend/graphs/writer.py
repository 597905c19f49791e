"""Graphs as what a stock library reads: the environment lines of RCCL, the XML of NCCL_GRAPH_FILE."""

from __future__ import annotations

from taccl.backend.graphs.document import ROOT, Graphs, children_of

#: (id, pattern) of the graphs of a file: a ring, and the tree that is a chain inside a node.
_RING, _TREE = (0, 4), (1, 3)


def environment_line(graphs: Graphs) -> str:
    """A line for a shell, quoted."""
    if graphs.shape == "ring":
        rings = "|".join(" ".join(map(str, ring)) for ring in graphs.channels)
        return f"export NCCL_RINGS='{rings}'\n"
    return f"export RCCL_TREES='{'|'.join(map(_nested, graphs.channels))}'\n"


def _nested(parents: tuple[int, ...]) -> str:
    """Such as `(2(1)(3(0)))`."""
    children, text = children_of(parents), ""
    waiting: list[int | str] = [parents.index(ROOT)]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            text += each
        else:
            text += f"({each}"
            waiting += [")", *reversed(children[each])]
    return text


def graph_xml(graphs: Graphs) -> str:
    """The chains of rings as ring graph and as tree graph, one channel each.

    With paths of type NVL the library may take LL128; where links are not known to be NVLinks, their type is
    one with which it does not.
    """
    inside = "NVL" if graphs.by_nvlink else "PHB"
    speed = graphs.gbps / len(graphs.channels)
    lines = ['<graphs version="1">']
    for id_, pattern in (_RING, _TREE):
        lines.append(
            f'  <graph id="{id_}" pattern="{pattern}" crossnic="0" nchannels="{len(graphs.channels)}" '
            f'speedintra="{speed:.6g}" speedinter="{speed:.6g}" latencyinter="0" typeintra="{inside}" '
            'typeinter="PIX" samechannels="0">'
        )
        for ring in graphs.channels:
            gpus = "".join(f'<gpu dev="{rank:x}" rank="{rank}"/>' for rank in ring)
            lines.append(f"    <channel>{gpus}</channel>")
        lines.append("  </graph>")
    return "\n".join([*lines, "</graphs>", ""])
