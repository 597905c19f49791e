"""A workload from a file: YAML by hand, ASTRA-sim's layer text, a Kineto trace; or from a formula."""

from __future__ import annotations

from pathlib import Path

from taccl.analysis.training.astra_text import is_astra_text, read_astra_text
from taccl.analysis.training.kineto import is_kineto, read_kineto
from taccl.analysis.training.transformer import is_transformer, transformer_of
from taccl.analysis.training.workload import MOST_BYTES, MOST_US, BucketCall, Layer, Phase, Workload
from taccl.errors import TacclError
from taccl.model.collectives import COLLECTIVES, plain_name
from taccl.support.reading import any_text
from taccl.topologies.strict_yaml import Node, parse_yaml

MAX_BYTES = 2**28
_KEYS = ("name", "batch", "layers", "group", "idle_us")
_LAYER_KEYS = ("name", "bytes", "forward_us", "backward_us", "calls")


def load_workload(source: str | Path | Workload, dtype: str | None = None) -> Workload:
    """The workload that `source` names.

    Parameters
    ----------
    source : a file, or `transformer:layers=24,hidden=2048,...` (see `transformer_of`).
    dtype : of gradients, for a trace that does not say.

    Raises
    ------
    TacclError : it cannot be read, or is none; with its line where it has one.
    """
    if isinstance(source, Workload):
        return source
    if isinstance(source, str) and is_transformer(source):
        return transformer_of(source)
    text = any_text(source, MAX_BYTES, TacclError)
    if is_astra_text(text):
        return read_astra_text(text, source)
    if is_kineto(text):
        return read_kineto(text, source, dtype)
    return _of_yaml(parse_yaml(text, source, TacclError))


def _of_yaml(root: Node) -> Workload:
    keys = root.mapping(_KEYS, required=("name", "layers"))
    layers = tuple(_layer(item) for item in keys["layers"].elements())
    if not layers:
        raise keys["layers"].error("there is no layer")
    return Workload(
        keys["name"].string(),
        keys["batch"].number(above=0) if "batch" in keys else 1,
        layers,
        keys["group"].integer(1, 2**20) if "group" in keys else 1,
        keys["idle_us"].number(0, MOST_US) if "idle_us" in keys else 0.0,
    )


def _layer(item: Node) -> Layer:
    keys = item.mapping(_LAYER_KEYS, required=("name", "bytes", "forward_us", "backward_us"))
    return Layer(
        keys["name"].string(),
        keys["bytes"].integer(0, MOST_BYTES),
        keys["forward_us"].number(0, MOST_US),
        keys["backward_us"].number(0, MOST_US),
        tuple(_call(each) for each in keys["calls"].elements()) if "calls" in keys else (),
    )


def _call(item: Node) -> BucketCall:
    keys = item.mapping(("phase", "collective", "bytes"), required=("phase", "collective", "bytes"))
    phases: tuple[Phase, ...] = ("forward", "backward")
    name = plain_name(keys["collective"].string())
    if name not in COLLECTIVES:
        raise keys["collective"].error(f"{name!r} is no collective", hint=", ".join(COLLECTIVES))
    return BucketCall(keys["phase"].choice(phases), name, keys["bytes"].integer(1, MOST_BYTES))
