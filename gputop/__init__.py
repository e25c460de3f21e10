"""gputop: what is a running Python/ML process waiting for?"""

__version__ = "0.1.0"
