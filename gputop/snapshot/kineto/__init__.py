"""Torch's own profiler trace from outside: Kineto's on-demand interface, as its daemon dynolog speaks it."""
