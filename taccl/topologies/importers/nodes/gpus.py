"""The models of GPUs: what tools call them, their architecture, their NVLinks. The one table of such facts.

Speeds of links are in `taccl.topologies.machines.rates`, by architecture.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The most NVLinks that a GPU of any generation has.
MOST_LINKS = 18


@dataclass(frozen=True)
class Models:
    """Models that have the same facts.

    Parameters
    ----------
    words : a pattern of what product names have in them.
    arch : `sm90`, `gfx942`.
    nvlinks : how many a GPU can have; the most of any where nobody needs to know.
    is_on_board : boards of more than four of them have NVSwitches; cards of them are joined by bridges.
    is_id : a PCI device id, which stands where a tool knows no name.
    """

    words: str
    arch: str
    nvlinks: int = MOST_LINKS
    is_on_board: bool = False
    is_id: bool = False


#: In the order in which they are tried: the longer names first where one holds another.
_MODELS = (
    Models(r"\b(?:0x)?(?:74a[0-9a-f]|74b[0-9a-f])\b", "gfx942", is_id=True),
    Models(r"\b(?:0x)?75a[03]\b", "gfx950", is_id=True),
    Models(r"\b(?:0x)?740[8cf]\b", "gfx90a", is_id=True),
    Models(r"\b(?:0x)?738[ce]\b", "gfx908", is_id=True),
    Models(r"\b(?:0x)?66a[0-7]\b", "gfx906", is_id=True),
    Models(r"\bG?B[123]00\b", "sm100", is_on_board=True),
    Models(r"\bGH200\b|\bH[12]00\b|\bH20\b", "sm90", is_on_board=True),
    Models(r"\bH800\b", "sm90", 8, is_on_board=True),
    Models(r"\bA100\b", "sm80", 12, is_on_board=True),
    Models(r"\bA800\b", "sm80", 8, is_on_board=True),
    Models(r"\bA30\b", "sm80"),
    Models(r"\bV100S?\b|\bGV100\b", "sm70", 6),
    Models(r"\bP100\b", "sm60", 4),
    Models(r"\bL[24]0S?\b|\bL4\b|\bRTX 6000 Ada\b|\bRTX 40\d0\b", "sm89"),
    Models(r"\bA10G?\b|\bA40\b|\bA16\b|\bRTX A\d000\b|\bRTX 30\d0\b|\bA6000\b", "sm86"),
    Models(r"\bT4\b|\bTITAN RTX\b|\bRTX 20\d0\b|\bQuadro RTX \d000\b", "sm75"),
    Models(r"\bMI35\dX?\b", "gfx950"),
    Models(r"\bMI3[02]\d[AX]?\b", "gfx942"),
    Models(r"\bMI2[15]0X?\b", "gfx90a"),
    Models(r"\bMI100\b", "gfx908"),
    Models(r"\bMI[56]0\b", "gfx906"),
)

#: Products that never had NVLink.
_WITHOUT_NVLINK = re.compile(
    r"\b(?:T4G?|L2|L4|L20|L40S?|A2|A10[GM]?|A16|P4|P40|M4|M10|M40|M60|K[12]0[0-9]?|K40[cmt]?|K80)\b|\bAda\b"
)
#: Cards, which bridges join, of models that boards have too.
_BRIDGED = ("PCIE", "NVL")


@dataclass(frozen=True)
class _ByCount:
    """The generation whose GPUs have a number of NVLinks, and those that have as many and are not taken."""

    arch: str
    taken: str = ""
    others: str = ""


#: How many NVLinks a GPU has -> the generation that has this many.
_BY_COUNT = {
    4: _ByCount("sm60"),
    6: _ByCount("sm70"),
    8: _ByCount("sm80", "the A800", "the H800"),
    12: _ByCount("sm80"),
    18: _ByCount("sm90", "Hopper", "Blackwell"),
}
#: The same where all of them lead to one other GPU: boards spread a P100's four, bridges join pairs of cards.
_BY_COUNT_OF_PAIRS = {
    4: _ByCount("sm86", "a bridge of RTX A6000, A40, RTX 3090", "the A30"),
    12: _ByCount("sm80", "the A100 as a card", "the H100 as a card"),
}
#: The same where a Grace CPU has the GPUs.
_BY_COUNT_AT_GRACE = {18: _ByCount("sm100", "Grace Blackwell", "Grace Hopper at NVLink switches")}
#: What an architecture is taken for where a file states it and names no product.
_USUAL = {
    **{"sm60": "P100", "sm70": "V100", "sm80": "A100", "sm90": "H100", "sm100": "B200", "sm103": "B300"},
    **{"gfx90a": "MI250X", "gfx942": "MI300X", "gfx950": "MI350X"},
}
#: Of A100 and H100 there are those with fewer NVLinks, for export.
_LINKS_FOR_EXPORT = 8
_USUAL_OF_EIGHT = {"sm80": "A800", "sm90": "H800"}
_USUAL_AT_GRACE = {"sm90": "GH200", "sm100": "GB200", "sm103": "GB300"}
#: Eight GPUs that all have xGMI links to each other; those before the MI300 had links to fewer others.
_XGMI_PEERS_SINCE_MI300 = 7


def model_in(text: str) -> str:
    """`NVIDIA B200 (UUID: GPU-...)`, as tools name a GPU behind its index -> B200."""
    return text.partition("(UUID")[0].strip().removeprefix("NVIDIA ").strip()


def _facts_of(model: str | None) -> Models | None:
    return next((each for each in _MODELS if re.search(each.words, model or "", re.IGNORECASE)), None)


def family_of(model: str) -> str | None:
    """`NVIDIA A100-SXM4-80GB` -> A100; None of a product that is not known here."""
    facts = _facts_of(model)
    found = None if facts is None or facts.is_id else re.search(facts.words, model, re.IGNORECASE)
    return None if found is None else found[0].upper()


def family_of_arch(arch: str | None, counted: Counted) -> str | None:
    """The usual product of an architecture, `sm90` -> H100; None where it has none with fast links."""
    if counted.at_grace:
        return _USUAL_AT_GRACE.get(arch or "")
    with_fewer_links = _USUAL_OF_EIGHT if counted.nvlinks == _LINKS_FOR_EXPORT else {}
    return with_fewer_links.get(arch or "", _USUAL.get(arch or ""))


def arch_of_model(model: str) -> str | None:
    """`NVIDIA A100-SXM4-80GB` -> sm80; None of a product that is not known here."""
    facts = _facts_of(model)
    return None if facts is None else facts.arch


def links_of_model(model: str | None) -> int:
    """How many NVLinks a GPU of this name can have; the most of any where the name tells nothing."""
    facts = _facts_of(model)
    return MOST_LINKS if facts is None else facts.nvlinks


def links_on_board(model: str) -> int | None:
    """How many NVLinks a GPU of this name has, all on its board; None of cards and of other models."""
    return links_of_model(model) if is_switched_beyond_four(model) else None


def models_in_prose(line: str) -> list[str]:
    """The models in a line of prose, `8xB200 with NVLink`, of those that stand on boards of eight."""
    words = re.sub(r"(?<=\d)[xX](?=[A-Z])", " ", line)
    boards = (
        each.words for each in _MODELS if each.is_on_board or (each.arch[:3] == "gfx" and not each.is_id)
    )
    return [found[0] for each in boards for found in re.finditer(each, words)]


def is_without_nvlink(model: str) -> bool:
    """Whether it is a product that never had NVLink."""
    return _WITHOUT_NVLINK.search(model) is not None


def is_switched_beyond_four(model: str | None) -> bool:
    """Whether no board joins more than four of them directly: cards that bridges join are no such GPUs."""
    facts = _facts_of(model)
    is_card = any(name in (model or "").upper() for name in _BRIDGED)
    return facts is not None and facts.is_on_board and not is_card


@dataclass(frozen=True)
class Counted:
    """What tells the generation of GPUs that nobody names.

    Parameters
    ----------
    nvlinks : of the GPU that has most.
    in_pairs : all of a GPU's links lead to one other GPU.
    at_grace : a Grace CPU has the GPUs.
    xgmi_peers : of the GPU that has xGMI links to most others.
    """

    nvlinks: int
    in_pairs: bool = False
    at_grace: bool = False
    xgmi_peers: int = 0

    @property
    def _row(self) -> _ByCount | None:
        at_grace = self.at_grace and _BY_COUNT_AT_GRACE.get(self.nvlinks)
        in_pairs = self.in_pairs and _BY_COUNT_OF_PAIRS.get(self.nvlinks)
        return at_grace or in_pairs or _BY_COUNT.get(self.nvlinks)

    @property
    def arch(self) -> str | None:
        """The generation whose GPUs have as many links, or by xGMI peers; None where none or several have."""
        if self.xgmi_peers:
            return "gfx942" if self.xgmi_peers >= _XGMI_PEERS_SINCE_MI300 else None
        return None if self._row is None else self._row.arch

    @property
    def several(self) -> tuple[str, str] | None:
        """Which GPUs are taken, and which have as many links; None where no others have."""
        return (self._row.taken, self._row.others) if self._row and self._row.others else None
