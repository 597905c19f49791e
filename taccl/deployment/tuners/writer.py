"""Rules as the CSV of a dialect."""

from __future__ import annotations

from taccl.deployment.tuners.rules import Dialect, TunerRule, Tuning

_WORDS = {
    "Ring": "ring",
    "Tree": "tree",
    "CollNetDirect": "collnet_direct",
    "CollNetChain": "collnet_chain",
    "NVLS": "nvls",
    "NVLSTree": "nvls_tree",
    "PAT": "pat",
}
#: No call is larger. The plugin of NCCL has no word for "any", and its readme's 4294967295 ends at 4 GB.
_LARGEST = 2**62
_COLUMNS = {
    "nccl": "collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks",
    "rccl": "collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks",
    "ncclx": "collective,bytesPerRank,algorithm,protocol,channels,nNodes,nLocalRanks",
}

#: How each is used.
USE: dict[Dialect, str] = {
    "nccl": "NCCL_TUNER_PLUGIN=libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE=this file",
    "rccl": "NCCL_TUNER_CONFIG_FILE=this file, or next to the library as rccl_tuner_gfx942.csv",
    "ncclx": "NCCLX_TUNER_CONFIG_FILE=this file",
}


def to_csv(tuning: Tuning, dialect: Dialect) -> str:
    """The file; how many channels a call has is left to the library."""
    lines = [f"# {tuning.says}, {tuning.nodes} nodes, {tuning.ranks} ranks", f"# {_COLUMNS[dialect]}"]
    for rule in tuning.rules:
        words = f"{_WORDS[rule.algorithm]},{rule.protocol.lower()},-1,{tuning.nodes}"
        if dialect == "ncclx":
            sizes = _per_rank(rule, tuning.ranks)
            if sizes is not None:
                lines.append(f"{rule.collective},{sizes},{words},{tuning.ranks // tuning.nodes}")
        else:
            most = _LARGEST if rule.most_bytes is None else rule.most_bytes
            lines.append(f"{rule.collective},{rule.least_bytes},{most},{words},{tuning.ranks}")
    return "\n".join(lines) + "\n"


def _per_rank(rule: TunerRule, ranks: int) -> str | None:
    """Sizes by rank, the end left out; None: the rule ends before the next whole number."""
    least = -(-rule.least_bytes // ranks)
    if rule.most_bytes is None:
        return f"[{least},)"
    end = -(-(rule.most_bytes + 1) // ranks)
    return f"[{least},{end})" if least < end else None
