"""`nvidia-smi nvlink`: with `-s` the model of each GPU, how many of its NVLinks are up, and how fast one is;
with `-R` for each link the bus id and the link at its other end.

Where links lead does not stand in the first, so it is left open. The second does not tell the bus ids of the
GPUs themselves: a bus is a GPU's where each link that leads to it is one of that GPU's, and leads back;
NVSwitches have more links than any GPU.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from taccl.errors import TopologyError
from taccl.support.lists import few
from taccl.support.tables import FileLine, is_elided, plain_lines
from taccl.topologies.importers.nodes.facts import Dump, Gpu, GpuLink, normal_busid
from taccl.topologies.importers.nodes.gpus import MOST_LINKS, links_on_board, model_in

NAME, REMOTE_NAME = "nvidia-smi-nvlink", "nvidia-smi-nvlink-remote"
_GPU = re.compile(r"\bGPU\s+(\d{1,4})\s*:\s*(\S.*)")
_LINK = re.compile(r"\bLink\s+(\d{1,3})\s*:(.*)")
_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)\s*GB/s")
#: How lines of other lists of the tool begin: where links lead, and what went wrong on them.
_OTHER_LISTS = ("Remote", "Replay", "Recovery", "CRC", "Data", "Raw")
_DOWN = re.compile(r"<?(?:inactive|disabled|off|down)>?", re.IGNORECASE)
_REMOTE = re.compile(r"\bLink\s+(\d{1,3})\s*:\s*Remote Device\s+([0-9A-Fa-f:.]+):\s*Link\s+(\d{1,3})")
_NONE = re.compile(r"links are inactive|not (?:have or )?support", re.IGNORECASE)


@dataclass
class _Listed:
    """What stands below the line of one GPU."""

    line: int
    dev: int
    model: str
    rates: dict[int, float] = field(default_factory=dict)
    down: set[int] = field(default_factory=set)
    lines: dict[int, int] = field(default_factory=dict)


def looks_like(text: str) -> bool:
    """Whether a GPU's line and the state of a link, or the word that it has none, stand in the text."""
    named = gpus = False
    if _GPU.search(text) is None:
        return False
    for line in plain_lines(text):
        if _GPU.search(line) is not None:
            gpus, named = True, named or "UUID" in line
        found = _LINK.search(line)
        state = "" if found is None else found[2].strip()
        if (gpus and _is_rate(state)) or (named and (_is_state(state) or _none(line))):
            return True
    return False


def read(text: str, path: str | None) -> Dump:
    """What the list tells: links that are down are not counted.

    Raises
    ------
    TopologyError : no GPU stands there, one stands there twice with different links, links were left out,
        or the state of a link is not known.
    """
    listed = _listed(plain_lines(text), path)
    if not listed:
        raise FileLine(path, 1).error("no GPU stands here", "give the output of `nvidia-smi nvlink -s`")
    listed.sort(key=lambda each: each.dev)
    totals = [len(each.rates) for each in listed]
    links = []
    for position, each in enumerate(listed):
        for rate, count in sorted(Counter(each.rates.values()).items()):
            line = min(each.lines[link] for link, value in each.rates.items() if value == rate)
            links.append(GpuLink(FileLine(path, line), position, None, "nvlink", count, rate, is_raw=True))
    return Dump(
        NAME,
        tuple(Gpu(FileLine(path, each.line), model=each.model or None, dev=each.dev) for each in listed),
        links=tuple(links),
        has_switch=None if any(totals) else False,
        order="as `nvidia-smi` counts GPUs",
        warnings=tuple(_odd(listed, path)),
    )


def _listed(lines: list[str], path: str | None) -> list[_Listed]:
    listed: dict[int, _Listed] = {}
    each: _Listed | None = None
    left_out = 0  # the line of the dots
    for number, line in enumerate(lines, 1):
        gpu, link = _GPU.search(line), _LINK.search(line)
        if gpu is not None and link is None:
            if each is not None and left_out:
                raise _cut_after(each, left_out, path)
            dev = int(gpu[1])
            if dev in listed:
                each = None  # another list, of capabilities or counters, begins
                continue
            each = _Listed(number, dev, model_in(gpu[2]))
            listed[dev] = each
            left_out = 0
        elif each is None:
            continue
        elif is_elided(line):
            left_out = number
        elif link is not None and not link[2].strip().startswith(_OTHER_LISTS):
            _add(each, int(link[1]), link[2].strip(), number, left_out > 0, path)
            left_out = 0
    if each is not None and left_out:
        raise _cut_after(each, left_out, path)
    return list(listed.values())


def _cut_after(gpu: _Listed, line: int, path: str | None) -> TopologyError:
    """Dots after the last link of a GPU: nobody knows how many links they stand for."""
    after = f"after link {max(gpu.lines)}" if gpu.lines else "before its first"
    return FileLine(path, line).error(
        f"links of GPU {gpu.dev} were left out {after}", "give the whole output"
    )


def _add(each: _Listed, link: int, state: str, line: int, left_out: bool, path: str | None) -> None:
    if link in each.lines:
        raise FileLine(path, line).error(
            f"link {link} of GPU {each.dev} stands here again (line {each.lines[link]})",
            "give the output of one `nvidia-smi nvlink -s`",
        )
    if left_out and link > len(each.lines):
        raise FileLine(path, line).error(
            f"links of GPU {each.dev} were left out before link {link}", "give the whole output"
        )
    each.lines[link] = line
    rate = _RATE.fullmatch(state)
    if rate is not None and float(rate[1]) > 0:
        each.rates[link] = float(rate[1])
    elif _is_state(state):
        each.down.add(link)
    else:
        raise FileLine(path, line).error(
            f"the state of link {link} of GPU {each.dev} is {state[:40]!r}, which is not known",
            "a speed in GB/s, or <inactive>",
        )


def _is_rate(state: str) -> bool:
    return _RATE.fullmatch(state) is not None


def _is_state(state: str) -> bool:
    return _is_rate(state) or _DOWN.fullmatch(state) is not None or _none(state)


def _none(line: str) -> bool:
    return _NONE.search(line) is not None


def _odd(listed: list[_Listed], path: str | None) -> list[str]:
    """Links that are down or slow, and GPUs that have fewer than the others."""
    found = []
    most = max(len(each.rates) for each in listed)
    usual = Counter(rate for each in listed for rate in each.rates.values()).most_common(1)
    for each in listed:
        place = FileLine(path, each.line)
        absent = sorted(set(range(max(each.lines, default=-1) + 1)) - set(each.lines))
        if each.rates and each.down:
            found.append(f"{place}: GPU {each.dev}: links {few(sorted(each.down))} are down; not counted")
        if absent:
            found.append(f"{place}: GPU {each.dev}: links {few(absent)} do not stand here; not counted")
        elif each.lines:
            found += _fewer(place, each.dev, each.model, len(each.lines))
        if len(each.rates) < most and not (each.rates and each.down) and not absent:
            found.append(f"{place}: GPU {each.dev} has {len(each.rates)} NVLinks, others have {most}")
        slow = sorted(link for link, rate in each.rates.items() if rate < 0.8 * usual[0][0])
        if slow:
            found.append(f"{place}: GPU {each.dev}: links {few(slow)} are slower than {usual[0][0]:g} GB/s")
    return found


def _fewer(place: FileLine, dev: int, model: str, count: int) -> list[str]:
    """A warning where a list ends before all links that such a GPU has."""
    most = links_on_board(model)
    if most is None or count >= most:
        return []
    return [
        f"{place}: GPU {dev} is {model} with {most} NVLinks, of which {count} stand here: is the list cut?"
    ]


@dataclass
class _Ends:
    """A GPU and, by the number of each of its links, the bus and the link at the other end."""

    location: FileLine
    dev: int
    model: str
    ends: dict[int, tuple[str, int]] = field(default_factory=dict)


def looks_like_remote(text: str) -> bool:
    """Whether the other end of a link stands in the text."""
    return "Remote Device" in text and any(map(_REMOTE.search, plain_lines(text)))


def read_remote(text: str, path: str | None) -> Dump:
    """What the list tells.

    Raises
    ------
    TopologyError : a link before any GPU, one that stands twice, or links were left out.
    """
    listed = _listed_ends(text, path)
    gpus = [listed[dev] for dev in sorted(listed)]
    is_switched = any(link >= MOST_LINKS for gpu in gpus for _, link in gpu.ends.values())
    at = {} if is_switched else _buses(gpus)
    counts: Counter[tuple[int, int | None]] = Counter()
    warnings = []
    for a, gpu in enumerate(gpus):
        others = [at.get(bus) for bus, _ in gpu.ends.values()]
        if gpu.ends:
            warnings += _fewer(gpu.location, gpu.dev, gpu.model, len(gpu.ends))
        counts.update((a, b) for b in others if b is None or a < b)
        if at and None in others:
            lost = f"{others.count(None)} links of GPU {gpu.dev} lead to no GPU of this list"
            warnings.append(f"{gpu.location}: {lost}: left out")
    has_switch = True if is_switched else False if at or not counts else None
    busid_of = {index: bus for bus, index in at.items()}
    return Dump(
        REMOTE_NAME,
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


def _listed_ends(text: str, path: str | None) -> dict[int, _Ends]:
    listed: dict[int, _Ends] = {}
    gpu: _Ends | None = None
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
        elif gpu is not None and is_elided(line):
            raise here.error(f"links of GPU {gpu.dev} were left out here", "give the whole output")
        elif header is not None:
            gpu = listed.setdefault(int(header[1]), _Ends(here, int(header[1]), model_in(header[2])))
    return listed


def _buses(gpus: list[_Ends]) -> Mapping[str, int]:
    """Bus ids of GPUs -> their indices; empty where the ends fit in none, or several pairings."""
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
