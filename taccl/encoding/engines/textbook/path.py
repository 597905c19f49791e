"""The path: neighbours in a row whose ends are not linked, such as the sides of a mesh.

A block goes straight to where it is wanted, or from where it begins to both ends. The link to the last
position carries n - 1 blocks, as in a ring one way, and no link goes round.

Source: Barnett, Littlefield, Payne and van de Geijn, "Global combine on mesh architectures with wormhole
routing", IPPS 1993.
"""

from __future__ import annotations

import numpy as np

from taccl.encoding.engines.textbook.line import Hops, LineAlgorithm, joined, straight
from taccl.model.collective import IntArray


def _spread(n: int, begin: IntArray) -> Hops:
    return joined(straight(begin, n - 1 - begin, 1), straight(begin, begin, -1))


def _route(n: int, begin: IntArray, end: IntArray) -> Hops:
    ahead = end - begin
    return joined(straight(begin, np.maximum(ahead, 0), 1), straight(begin, np.maximum(-ahead, 0), -1))


#: n - 1 steps, over links between neighbours.
PATH = LineAlgorithm("path", _spread, sends=lambda n: n - 1, route=_route, mean_hops=lambda n: n / 3)
