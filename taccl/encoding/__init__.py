"""Answering problems: engines that find schedules, and bounds that say how good one can be.

`portfolio.solve` is the door. This room knows `Problem` and `Schedule`; it knows neither YAML nor XML,
prints nothing, and has one clock, `engine.Budget`.
"""
