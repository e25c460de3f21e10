"""Which Python frame a thread is in, read from CPython's own structures in the same look as its native stack."""
