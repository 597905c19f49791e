"""Traces for simulators of others: sends, receives and sums of each rank, with what waits for what."""
