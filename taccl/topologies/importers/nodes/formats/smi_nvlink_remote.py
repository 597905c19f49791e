"""`nvidia-smi nvlink -R`: for each NVLink of a GPU the bus id and the link at its other end.

The list does not tell the bus ids of the GPUs themselves. A bus is a GPU's where each link that leads to it
is one of that GPU's, and leads back; NVSwitches have more links than any GPU.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from taccl.support.tables import FileLine, plain_lines
from taccl.topologies.importers.nodes.facts import Dump, Gpu, GpuLink, normal_busid
from taccl.topologies.importers.nodes.nvlinks import MOST_LINKS

NAME = "nvidia-smi-nvlink-remote"
_GPU = re.compile(r"\bGPU\s+(\d{1,4})\s*:\s*(\S.*)")
_REMOTE = re.compile(r"\bLink\s+(\d{1,3})\s*:\s*Remote Device\s+([0-9A-Fa-f:.]+):\s*Link\s+(\d{1,3})")


@dataclass
class _Listed:
    """A GPU and, by the number of each of its links, the bus and the link at the other end."""

    location: FileLine
    dev: int
    model: str
    ends: dict[int, tuple[str, int]] = field(default_factory=dict)


def looks_like(text: str) -> bool:
    """Whether the other end of a link stands in the text."""
    return "Remote Device" in text and any(map(_REMOTE.search, plain_lines(text)))


def read(text: str, path: str | None) -> Dump:
    """What the list tells.

    Raises
    ------
    TopologyError : a link before any GPU, or one that stands twice.
    """
    listed = _listed(text, path)
    gpus = [listed[dev] for dev in sorted(listed)]
    is_switched = any(link >= MOST_LINKS for gpu in gpus for _, link in gpu.ends.values())
    at = {} if is_switched else _buses(gpus)
    counts: Counter[tuple[int, int | None]] = Counter()
    warnings = []
    for a, gpu in enumerate(gpus):
        others = [at.get(bus) for bus, _ in gpu.ends.values()]
        counts.update((a, b) for b in others if b is None or a < b)
        if at and None in others:
            lost = f"{others.count(None)} links of GPU {gpu.dev} lead to no GPU of this list"
            warnings.append(f"{gpu.location}: {lost}: left out")
    has_switch = True if is_switched else False if at or not counts else None
    busid_of = {index: bus for bus, index in at.items()}
    return Dump(
        NAME,
        tuple(
            Gpu(gpu.location, busid_of.get(index), model=gpu.model or None, dev=gpu.dev)
            for index, gpu in enumerate(gpus)
        ),
        links=tuple(
            GpuLink(gpus[a].location, a, b, "nvlink", count)
            for (a, b), count in counts.items()
            if b is not None or not at
        ),
        has_switch=has_switch,
        order="as `nvidia-smi` counts GPUs",
        warnings=tuple(warnings),
    )


def _listed(text: str, path: str | None) -> dict[int, _Listed]:
    listed: dict[int, _Listed] = {}
    gpu: _Listed | None = None
    for number, line in enumerate(plain_lines(text), 1):
        here, remote, header = FileLine(path, number), _REMOTE.search(line), _GPU.search(line)
        if remote is not None and gpu is None:
            raise here.error("no GPU stands above this link", "give the whole output")
        if remote is not None and gpu is not None:
            link = int(remote[1])
            if link in gpu.ends:
                raise here.error(
                    f"link {link} of GPU {gpu.dev} stands here again",
                    "give the output of one `nvidia-smi nvlink -R`",
                )
            gpu.ends[link] = (normal_busid(remote[2]) or remote[2].lower(), int(remote[3]))
        elif header is not None:
            name = header[2].partition("(UUID")[0].strip().removeprefix("NVIDIA ").strip()
            gpu = listed.setdefault(int(header[1]), _Listed(here, int(header[1]), name))
    return listed


def _buses(gpus: list[_Listed]) -> Mapping[str, int]:
    """Bus ids of GPUs -> their indices; empty where the ends do not fit together, or in several ways."""
    towards: dict[str, set[tuple[int, int]]] = {}
    for gpu in gpus:
        for link, (bus, end) in gpu.ends.items():
            towards.setdefault(bus, set()).add((end, link))
    found: dict[str, int] = {}
    for bus, ends in towards.items():
        fits = [
            index
            for index, gpu in enumerate(gpus)
            if {(link, end) for link, (_, end) in gpu.ends.items()} >= ends
            and all(own != bus for own, _ in gpu.ends.values())
        ]
        if len(fits) == 1:
            found[bus] = fits[0]
    return found if len(found) == len(towards) == len(set(found.values())) else {}
