"""Communication sketches: the designer's half of an algorithm, and what it makes of a machine."""

from taccl.sketch.apply import Applied, SketchedNetwork, apply_sketch, check_ranks, sketched
from taccl.sketch.load import load_sketch, parse_sketch
from taccl.sketch.model import Internode, Intranode, Relay, Rotation, SenderFor, Sketch, Switch
from taccl.sketch.published import find_sketch, published_sketches
from taccl.sketch.schema import sketch_schema
from taccl.sketch.starting import proposed_sketch, starting_sketch

__all__ = [
    "Applied",
    "Internode",
    "Intranode",
    "Relay",
    "Rotation",
    "SenderFor",
    "Sketch",
    "SketchedNetwork",
    "Switch",
    "apply_sketch",
    "check_ranks",
    "find_sketch",
    "load_sketch",
    "parse_sketch",
    "proposed_sketch",
    "published_sketches",
    "sketch_schema",
    "sketched",
    "starting_sketch",
]
