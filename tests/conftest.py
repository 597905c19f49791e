"""Makes the modules next to it (`strategies`) importable from the folders below; no test has a clock."""

from hypothesis import settings

# The first call of a compiled loop may take a second.
settings.register_profile("without a clock", deadline=None)
settings.load_profile("without a clock")
