"""What a table of NVLink counts says: links from GPU to GPU, or links to a switch between all of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: The most NVLinks that a GPU of any generation has, and those of the generations that have fewer.
MOST_LINKS = 18
_LINKS_OF_MODEL = (("P100", 4), ("V100", 6), ("A100", 12), ("A800", 8), ("H800", 8))


@dataclass(frozen=True)
class Wiring:
    """How NVLinks run.

    Parameters
    ----------
    has_switch : None where counts do not tell: two GPUs look the same with a switch between them and without.
    ports : of a machine with a switch, the links of each GPU to it.
    switch_of : which switch that is, from 0: GPUs of two groups without a link between them have two.
    apart : a pair that has no way to each other although both have links to a switch: then nothing fits.
    """

    has_switch: bool | None
    ports: tuple[int, ...] = ()
    switch_of: tuple[int, ...] = ()
    apart: tuple[int, int] | None = None


def links_of_model(model: str | None) -> int:
    """How many NVLinks a GPU of this name can have; the most of any where the name tells nothing."""
    return next((links for name, links in _LINKS_OF_MODEL if model and name in model), MOST_LINKS)


def _apart(counts: Sequence[Sequence[int]], linked: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of GPUs that no link joins, and that share a neighbour: no switch has them both."""
    for a, b in itertools.combinations(linked, 2):
        if not counts[a][b] and any(counts[a][c] and counts[b][c] for c in linked):
            yield a, b


def wiring(counts: Sequence[Sequence[int]], most: int | Sequence[int] = MOST_LINKS) -> Wiring:
    """Whether these counts are links between GPUs or to a switch.

    A tool that names the links between two GPUs names, behind a switch, those that each has to the switch.
    Then a row adds up to more links than a GPU can have, which is how a switch is reported.

    Parameters
    ----------
    counts : shape (gpus, gpus), symmetric, with zeros on the diagonal.
    most : how many links a GPU has, or each of them.
    """
    gpus = range(len(counts))
    limits = [most] * len(counts) if isinstance(most, int) else list(most)
    linked = [gpu for gpu in gpus if any(counts[gpu])]
    if not linked:
        return Wiring(False)
    peers = {gpu: sum(1 for count in counts[gpu] if count) for gpu in gpus}
    if not any(peers[gpu] >= 2 and sum(counts[gpu]) > limits[gpu] for gpu in linked):
        return Wiring(None if len(counts) == 2 else False)
    apart = next(_apart(counts, linked), None)
    if apart is not None:
        return Wiring(True, apart=apart)
    first = [min((gpu, *(other for other in gpus if counts[gpu][other]))) for gpu in gpus]
    groups = sorted({first[gpu] for gpu in linked})
    switch_of = tuple(groups.index(each) if each in groups else 0 for each in first)
    return Wiring(True, ports=tuple(max(counts[gpu]) for gpu in gpus), switch_of=switch_of)
