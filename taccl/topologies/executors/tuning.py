"""The table of defaults: what executing costs on each family of GPUs with each runtime.

Measured numbers name their table; inferred ones the rule by which they follow from others; assumed ones have
neither. Errors are those of docs/results/defaults.md, for tables that nothing was fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping

from taccl.model.executor import ProtocolName
from taccl.model.units import KB, MB
from taccl.topologies.executors.numbers import Defaults, ProtocolNumbers
from taccl.topologies.machines.figures import Figure, How

#: Models of GPUs that count as one, the one that the numbers are of first.
V100 = ("V100",)
A100 = ("A100", "A800")
H100 = ("H100", "H200", "H800", "H20", "GH200")
B200 = ("B200", "B300", "GB200", "GB300")
MI250X = ("MI250X",)
MI300X = ("MI300X", "MI325X", "MI308X")
MI350X = ("MI350X", "MI355X")

#: Multiprocessors, of which each runs a thread block; a GPU of AMD's is one GCD where it has two.
_MULTIPROCESSORS = {V100: 80, A100: 108, H100: 132, B200: 148, MI250X: 110, MI300X: 304, MI350X: 256}
#: Pieces that the runtimes cut chunks into, bytes.
_NVIDIA_PIECES: Mapping[ProtocolName, int] = {"Simple": 2 * MB, "LL": 32 * KB, "LL128": 576_000}
_AMD_PIECES: Mapping[ProtocolName, int] = {"Simple": 2 * MB, "LL": 16 * KB, "LL128": 50_176}
_PROTOCOLS: tuple[ProtocolName, ...] = ("Simple", "LL", "LL128")
#: Slices of the first piece of a hop, at both ends.
_SLICES: Mapping[ProtocolName, int] = {"Simple": 3, "LL": 2, "LL128": 2}
#: The alpha that links of the catalogue have, us.
_LINK_ALPHA_US = 0.7

_MODEL = "NCCL 2.30.7's model"
#: Of a ring of NCCL's in a node: before anything moves, and each hop, us.
_NCCL_LAUNCH_US: Mapping[ProtocolName, float] = {"Simple": 8.4, "LL": 6.6, "LL128": 14.0}
_NCCL_HOP_US: Mapping[ProtocolName, float] = {"Simple": 3.4, "LL": 0.6, "LL128": 1.9}
#: GB/s of a channel of NCCL's: Simple as in the graph of a node of 8, LL128 the most of a ring's, LL the most
#: of all channels over 24 of them.
_CHANNEL_GBPS: Mapping[tuple[str, ...], Mapping[ProtocolName, float]] = {
    V100: {"Simple": 20.0, "LL": 1.6, "LL128": 20.0},
    A100: {"Simple": 20.0, "LL": 3.7, "LL128": 20.0},
    H100: {"Simple": 30.0, "LL": 5.9, "LL128": 36.7},
    B200: {"Simple": 45.0, "LL": 11.8, "LL128": 40.0},
}


def _blocks(gpus: tuple[str, ...]) -> Figure:
    return Figure(_MULTIPROCESSORS[gpus], "vendor", f"multiprocessors of a {gpus[0]}, a thread block each")


# --- interpreters of MSCCL-XML

_RUNS = "22 programs on 8 MI300X with RCCL 2.21.5, ns3-msccl-data"
#: RCCL 2.21.5's numbers on MI300X: launch, hop and slice in us, GB/s of a thread block.
_MI300X_FIT: Mapping[ProtocolName, tuple[float, float, float, float]] = {
    "Simple": (6.2, 0.4, 0.95, 20.8),
    "LL": (4.7, 0.4, 0.22, 3.2),
    "LL128": (211.0, 0.4, 0.55, 4.46),
}
#: An AlltoAll of 1 KB on 8 A100 with MSCCL, less one hop, us.
_A100_LAUNCH_US: Mapping[ProtocolName, float] = {"Simple": 24.1, "LL": 6.2, "LL128": 18.2}
_NDMV4 = "microsoft/mscclpp docs/performance-ndmv4.md: AlltoAll of 1 KB on 8 A100, less one hop"
#: What interpreting a step adds to a hop of NCCL's, us.
_INTERPRETED_US = 1.0


def _msccl_amd(gpus: tuple[str, ...], how: How, source: str, error: float, errors_source: str) -> Defaults:
    return Defaults(
        gpus,
        "msccl",
        {
            name: ProtocolNumbers(
                Figure(launch, how, source),
                Figure(hop, how, source),
                Figure(piece, how, source),
                Figure(block, how, source),
                _AMD_PIECES[name],
            )
            for name, (launch, hop, piece, block) in _MI300X_FIT.items()
        },
        reduce_us=Figure(4.9, how, source),
        reduce_gbps=Figure(22.9, how, source),
        thread_blocks=Figure(64, "library", "RCCL: thread blocks of a program on a GPU"),
        errors=((0, error),),
        errors_source=errors_source,
    )


def _msccl_nvidia(gpus: tuple[str, ...]) -> Defaults:
    how: How = "measured" if gpus == A100 else "inferred"
    source = _NDMV4 if gpus == A100 else "as A100"
    hop = Figure(0.3, "assumed", "what of a hop is neither the link's alpha nor the slices'")
    step = f"{_MODEL} of a hop, and {_INTERPRETED_US:g} us to interpret a step, over its slices"
    protocols = {
        name: ProtocolNumbers(
            Figure(_A100_LAUNCH_US[name], how, source),
            hop,
            Figure(_slice_us(name, _INTERPRETED_US - hop.value), "inferred", step),
            Figure(_CHANNEL_GBPS[gpus][name], "inferred", f"a channel in {_MODEL}"),
            _NVIDIA_PIECES[name],
        )
        for name in _PROTOCOLS
    }
    return Defaults(
        gpus,
        "msccl",
        protocols,
        reduce_us=Figure(1.5, "assumed", "a step; 4.9 us on MI300X"),
        reduce_gbps=Figure(_CHANNEL_GBPS[gpus]["Simple"], "inferred", f"a channel in {_MODEL}"),
        thread_blocks=_blocks(gpus),
        errors=((0, 0.5),),
        errors_source="assumed: no program whose file is public was measured on these",
    )


def _slice_us(name: ProtocolName, more_us: float) -> float:
    """What is left of a hop of NCCL's, and more, for each of its slices."""
    return max(0.1, round((_NCCL_HOP_US[name] - _LINK_ALPHA_US + more_us) / _SLICES[name], 2))


# --- MSCCL++'s executor of plans

_SGLANG = "fitted to AllReduce of 2 to 256 KB on 8 H200, sgl-project/sglang#22734"
_PR169 = "fitted to AllReduce of 24 to 384 KB on 8 A100, microsoft/mscclpp#169"


def _mscclpp(gpus: tuple[str, ...], how: How, source: str, error: float, errors_source: str) -> Defaults:
    """Six numbers fit both tables: launches, what a sum or copy takes, and speeds of a thread block."""
    hop = Figure(0.3, "inferred", "a flag in an H100, 1.0 us, less a link's alpha: docs/results/gpu.md")
    step = Figure(0.0, "inferred", "in the launch and in what starts a sum: tables do not tell them apart")
    return Defaults(
        gpus,
        "mscclpp",
        {
            "Simple": ProtocolNumbers(Figure(6.0, how, source), hop, step, Figure(30.0, how, source), 2 * MB),
            "LL": ProtocolNumbers(Figure(4.0, how, source), hop, step, Figure(12.0, how, source), 2 * MB),
        },
        reduce_us=Figure(0.3, how, source),
        reduce_gbps=Figure(150.0, how, source),
        thread_blocks=_blocks(gpus),
        errors=((0, error), (MB, 0.4)),
        errors_source=errors_source,
    )


# --- NCCL's own kernels


def _nccl(gpus: tuple[str, ...]) -> Defaults:
    protocols = {
        name: ProtocolNumbers(
            Figure(_NCCL_LAUNCH_US[name], "library", f"{_MODEL}: a ring, before its hops"),
            Figure(0.0, "inferred", "a hop has nothing next to the link's alpha and the slices'"),
            Figure(_slice_us(name, 0.0), "library", f"{_MODEL} of a hop, over its slices"),
            Figure(_CHANNEL_GBPS[gpus][name], "library", f"{_MODEL}: a channel"),
            _NVIDIA_PIECES[name],
        )
        for name in _PROTOCOLS
    }
    return Defaults(
        gpus,
        "nccl",
        protocols,
        reduce_us=Figure(0.0, "inferred", "sums are made while bytes are received"),
        reduce_gbps=Figure(2 * _CHANNEL_GBPS[gpus]["Simple"], "inferred", "two sources of a channel"),
        thread_blocks=_blocks(gpus),
        errors=((0, 0.45), (512 * MB, 0.1)),
        errors_source="docs/baseline.md: measured next to NCCL's own estimates",
    )


_FITTED = "docs/results/defaults.md: 90th percentile of tables that were not fitted"
_AS_MI300X = "assumed: no table"

EVERY: tuple[Defaults, ...] = (
    *(_msccl_nvidia(gpus) for gpus in (V100, A100, H100, B200)),
    _msccl_amd(MI300X, "measured", _RUNS, 0.08, "docs/results/fidelity.md: 90th percentile"),
    *(_msccl_amd(gpus, "assumed", "as MI300X", 0.5, _AS_MI300X) for gpus in (MI250X, MI350X)),
    _mscclpp(H100, "measured", _SGLANG, 0.2, _FITTED),
    _mscclpp(A100, "measured", _PR169, 0.2, _FITTED),
    _mscclpp(MI300X, "inferred", "as H200", 0.2, _FITTED),
    _mscclpp(B200, "inferred", "as H200", 0.4, "assumed: no table of plans"),
    *(_mscclpp(gpus, "assumed", "as A100", 0.5, "assumed: no table of plans") for gpus in (V100, MI250X)),
    _mscclpp(MI350X, "assumed", "as MI300X", 0.5, "assumed: no table of plans"),
    *(_nccl(gpus) for gpus in (V100, A100, H100, B200)),
)
