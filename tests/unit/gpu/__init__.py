"""The GPU part."""
