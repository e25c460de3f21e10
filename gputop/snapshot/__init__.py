"""Traces for other viewers: the sampled one and its formats."""
