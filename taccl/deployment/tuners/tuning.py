"""Numbers of rules that are made of schedules."""

from taccl.model.executor import FITTED_ERROR

#: Units of work for the schedules of a library's algorithms, for each collective.
EFFORT = 3000
#: The library's own choice stands unless another algorithm is faster by more than this part: as far as
#: predicted times are off on a machine that was measured.
FASTER = FITTED_ERROR
