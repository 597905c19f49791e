"""How two parts of a sum become one, for each of torch's reductions that takes parts in any order."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

#: Of two tensors, with `out=`, which may be one of them.
Reduce = Callable[..., torch.Tensor]

_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_WHOLE = {torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64}
_COMPLEX = {torch.complex64, torch.complex128}

_REDUCTIONS = (
    (dist.ReduceOp.SUM, _FLOATS | _WHOLE | _COMPLEX, torch.add),
    (dist.ReduceOp.AVG, _FLOATS, torch.add),  # and divided in the end
    (dist.ReduceOp.PRODUCT, _FLOATS | _WHOLE, torch.mul),
    (dist.ReduceOp.MIN, _FLOATS | _WHOLE, torch.minimum),
    (dist.ReduceOp.MAX, _FLOATS | _WHOLE, torch.maximum),
    (dist.ReduceOp.BAND, _WHOLE, torch.bitwise_and),
    (dist.ReduceOp.BOR, _WHOLE, torch.bitwise_or),
    (dist.ReduceOp.BXOR, _WHOLE, torch.bitwise_xor),
)


def reduction_of(op: object, dtype: torch.dtype) -> Reduce | None:
    """The function for a reduction of a type; None: only the inner backend knows it (PREMUL_SUM)."""
    return next((reduce for known, types, reduce in _REDUCTIONS if op == known and dtype in types), None)
