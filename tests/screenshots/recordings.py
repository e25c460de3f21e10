"""Makes a recording fit to be shown: paths, host and serial numbers of the machine that it was made on are renamed.

python -m tests.screenshots.recordings IN.gputop tests/data/recordings/NAME.gputop /their/path=/home/ada/project …
"""

from __future__ import annotations

import argparse
import gzip
import re
from pathlib import Path

_HOST = re.compile(r'("hostname": ?)"[^"]*"')
_UUID = re.compile(r"GPU-[0-9a-f]{8}-[0-9a-f-]{27}")


def renamed(text: str, names: dict[str, str]) -> str:
    """Return a recording's text with these names replaced, longest first, and the machine's own made up."""
    for old in sorted(names, key=len, reverse=True):
        text = text.replace(old, names[old])
    return _UUID.sub("GPU-00000000-0000-0000-0000-000000000000", _HOST.sub(r'\1"node"', text))


def main() -> None:
    """Read, rename, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("names", nargs="*", metavar="OLD=NEW")
    options = parser.parse_args()
    names = dict(name.split("=", 1) for name in options.names)
    text = gzip.decompress(options.source.read_bytes()).decode()
    options.target.write_bytes(gzip.compress(renamed(text, names).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
