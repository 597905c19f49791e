"""Numbers of predictions of steps, chosen by judgement but where a measurement is named."""

#: Sizes at which a plan is timed besides the buckets requested: each larger by this factor. Between
#: two, times are interpolated.
SIZE_STEP = 4
#: Bytes of the smallest size in a table of times, and of the least bucket that is tried.
LEAST_BYTES, LEAST_BUCKET = 2**14, 2**20
#: Buckets that `auto` compares: from the least on, each larger by this factor, up to all gradients at once.
BUCKET_STEP = 2
#: The part of the time that is for the bounds.
FOR_BOUNDS = 0.3
#: Units of work that a synthesis of one collective is given where no effort is named.
SYNTHESIS_EFFORT = 20_000
#: Units of work for the algorithms of a library on one machine: a ring of 16 GPUs takes some hundreds.
LIBRARY_EFFORT = 10_000
