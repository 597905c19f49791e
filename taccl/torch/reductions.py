"""How two parts of a sum become one, for each of torch's reductions that takes parts in any order."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

#: Writes `a` and `b`, reduced, to `out`, which may be one of them.
Reduce = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]

_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_WHOLE = {torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64}
_COMPLEX = {torch.complex64, torch.complex128}


def _sum(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    torch.add(a, b, out=out)


def _product(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    torch.mul(a, b, out=out)


def _least(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    torch.minimum(a, b, out=out)


def _most(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    torch.maximum(a, b, out=out)


def _and(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    torch.bitwise_and(a, b, out=out)


def _or(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    torch.bitwise_or(a, b, out=out)


def _xor(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    torch.bitwise_xor(a, b, out=out)


_REDUCTIONS = (
    (dist.ReduceOp.SUM, _FLOATS | _WHOLE | _COMPLEX, _sum),
    (dist.ReduceOp.AVG, _FLOATS, _sum),  # and divided in the end
    (dist.ReduceOp.PRODUCT, _FLOATS | _WHOLE, _product),
    (dist.ReduceOp.MIN, _FLOATS | _WHOLE, _least),
    (dist.ReduceOp.MAX, _FLOATS | _WHOLE, _most),
    (dist.ReduceOp.BAND, _WHOLE, _and),
    (dist.ReduceOp.BOR, _WHOLE, _or),
    (dist.ReduceOp.BXOR, _WHOLE, _xor),
)


def reduction_of(op: object, dtype: torch.dtype) -> Reduce | None:
    """The function for a reduction of a type; None: only the inner backend knows it (PREMUL_SUM)."""
    return next((reduce for known, types, reduce in _REDUCTIONS if op == known and dtype in types), None)
