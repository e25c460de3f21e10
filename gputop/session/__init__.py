"""The recording: everything sampled, in one file that grows as it happens.

A `.gputop` file is a gzip stream of JSON lines, so `zcat FILE | head` shows it. The first line says what the file is:
`{"recording": "gputop", "version": [1, 0]}`. Each line after it is one batch of `gputop.model` on its own:
`["PeekBatch", {…}]`, with a dataclass as an object, a named tuple as an array, and NA as `{"na": reason}`. About once a
second the stream is flushed to a byte boundary (zlib's Z_SYNC_FLUSH); all that was flushed can be read, whatever
happens to the writer. A new minor version only adds fields; readers skip what they do not know.
"""

from gputop.session.reader import load, read_session
from gputop.session.writer import SessionWriter

__all__ = ["SessionWriter", "load", "read_session"]
