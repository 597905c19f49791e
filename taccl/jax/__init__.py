"""Plans in a JAX program, inside `shard_map` (the optional extra `jax`).

    collectives = taccl.jax.load("bundle")
    jax.shard_map(lambda x: collectives.all_reduce(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P("i"))

A call for which there is a plan becomes a `ppermute` for each wave of its rounds, which XLA compiles as any
other collective; any other call is that of `jax.lax`. What decides is known when the program is traced, so it
is the same on all devices.
"""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:  # pragma: no cover - the suite has it, or skips
    raise ImportError("taccl.jax needs JAX: pip install 'taccl[jax]'") from error

from taccl.jax.collectives import Collectives, load

__all__ = ["Collectives", "load"]
