"""One search over configurations and numbers of chunks: by predicted time where files can be predicted.

A protocol and a number of instances set the costs that engines see, and which schedule is best depends on
these. So a schedule is searched for under the costs of one configuration, lowered under every one and
executed; the configuration that is then predicted fastest is searched for next, until it stays the same. Each
of these searches chooses the number of chunks by successive halving, where that is open.
"""
