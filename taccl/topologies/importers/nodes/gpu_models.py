"""The models of GPUs from lines around an output, or from the user, where the output itself names none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from taccl.errors import TopologyError
from taccl.support.tables import FileLine, plain_lines
from taccl.topologies.importers.nodes.facts import Dump, Gpu, Known
from taccl.topologies.importers.nodes.figures import arch_of, counted
from taccl.topologies.importers.nodes.gpus import (
    arch_of_model,
    family_of,
    family_of_arch,
    model_in,
    models_in_prose,
)

#: `GPU 0: NVIDIA B200 (UUID: ..)` of `nvidia-smi -L`, and `GPU 0,1,..: NVIDIA B200` of people.
_LISTED = re.compile(r"\bGPUs?\s+(\d[\d ,.-]{0,200}):\s*(\S.*)")
#: A row of the table of `nvidia-smi`, and of the devices that nccl-tests uses.
_TABLED = re.compile(r"^\s*\|\s+(\d{1,3})\s+(\S.*?)\s{2,}(?:On|Off|N/A)\b")
_USED = re.compile(r"#\s+Rank\s+\d+\s.*\bdevice\s+(\d{1,3})\s+\[[^\]]*\]\s+(\S.*)")
#: Pastes that name models are short, and so are their lines.
_MOST_BYTES, _LONGEST_LINE = 2**20, 400


def with_named_models(dump: Dump, text: str) -> Dump:
    """A dump whose GPUs have the models that lines of the same text name, where it has none itself.

    GPUs are the same by the vendor's index; a model that all lines name is that of all. Two lines that name
    different models for one index tell of several machines, and name none.
    """
    if len(text) > _MOST_BYTES or all(gpu.model or gpu.arch for gpu in dump.gpus):
        return dump
    names: dict[int, set[str]] = {}
    for index, name in _named(text):
        names.setdefault(index, set()).add(name)
    every = set().union(*names.values())
    if not every:
        return _with_mentioned_model(dump, text)
    if any(len(models) > 1 for models in names.values()):
        return dump
    only = next(iter(every)) if len(every) == 1 else None

    def model(gpu: Gpu) -> str | None:
        if gpu.model or gpu.arch:
            return gpu.model
        return only if only or gpu.dev is None else next(iter(names.get(gpu.dev, ())), None)

    return replace(dump, gpus=tuple(replace(gpu, model=model(gpu)) for gpu in dump.gpus))


def _with_mentioned_model(dump: Dump, text: str) -> Dump:
    """A dump whose GPUs are of the one generation that any line mentions, with a warning that says so."""
    found = [
        (model, number)
        for number, line in enumerate(plain_lines(text), 1)
        if len(line) <= _LONGEST_LINE
        for model in models_in_prose(line)
    ]
    if len({arch_of_model(model) for model, _ in found}) != 1:
        return dump
    model, number = found[0]
    place = FileLine(dump.gpus[0].place.path, number)
    warning = f"{place}: the GPUs are taken for {model}, which this line mentions"
    gpus = tuple(gpu if gpu.model or gpu.arch else replace(gpu, model=model) for gpu in dump.gpus)
    return replace(dump, gpus=gpus, warnings=(*dump.warnings, warning))


def _named(text: str) -> Iterator[tuple[int, str]]:
    """Indices and models, of lines whose model is one of a generation that is in the table of rates."""
    for line in plain_lines(text):
        if len(line) > _LONGEST_LINE:
            continue
        match = _LISTED.search(line) or _TABLED.search(line) or _USED.search(line)
        if match is None:
            continue
        name = model_in(match[2])
        if arch_of_model(name) is not None:
            yield from ((int(index), name) for index in re.findall(r"\d+", match[1]))


def with_model(dump: Dump, name: str) -> Dump:
    """A dump whose GPUs are of the model that the user names.

    Raises
    ------
    TopologyError : no generation of GPUs has this name, or a file names another.
    """
    arch = arch_of_model(name)
    if arch is None:
        raise TopologyError(
            f"no GPU called {name[:40]!r} is in the table of rates", hint="H100, B200, MI300X"
        )
    for number, gpu in enumerate(dump.gpus):
        own = arch_of(gpu)
        if own is not None and own != arch:
            raise gpu.place.error(f"GPU {number} is {gpu.model or own} here, but --gpu says {name}")
    return replace(dump, gpus=tuple(replace(gpu, model=gpu.model or name) for gpu in dump.gpus))


def family(dump: Dump) -> Known | None:
    """What all GPUs are, `H100`, and how that is known; None where they differ or are unknown."""
    first, here = dump.gpus[0], counted(dump)
    named = {gpu.model and family_of(gpu.model) for gpu in dump.gpus}
    model = next(iter(named))
    if len(named) == 1 and model:
        return Known("model of the GPUs", model, "inferred", f"{first.model}, as {first.place} has it")
    archs = {arch_of(gpu) or here.arch for gpu in dump.gpus}
    arch = next(iter(archs))
    usual = family_of_arch(arch, here)
    if len(archs) > 1 or usual is None:
        return None
    return Known("model of the GPUs", usual, "assumed", f"the usual product of {arch}; no file names it")


def unnamed_generation(dump: Dump) -> str | None:
    """A warning of GPUs whose number of NVLinks several models have, while no file names their model."""
    links = [link for link in dump.links or () if link.kind == "nvlink" and link.gbps is None]
    if not links or any(arch_of(gpu) for gpu in dump.gpus):
        return None
    here = counted(dump)
    if here.several is None:
        return None
    taken, others = here.several
    both = f"{here.nvlinks} NVLinks of a GPU are of {taken} or of {others}"
    return f"{links[0].place}: {both}: {taken} is taken, since no file names the GPUs; --gpu names them"
