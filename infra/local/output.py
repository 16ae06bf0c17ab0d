"""What an execution environment writes: lines on stdout and stderr, and framed log records.

Lambda gives the runtime client a descriptor of its own for what goes through `logging`, so that a
record with a traceback stays one record. A frame is: type (4 bytes), length (4), microseconds (8),
text; big-endian. https://github.com/aws/aws-lambda-python-runtime-interface-client
"""

import os
import selectors
import struct
from collections.abc import Iterator
from typing import Final

_PIPE_BYTES: Final = 1 << 16
_FRAME: Final = struct.Struct(">IIq")


class Output:
    """Two pipes from one process, watched through the caller's selector."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._lines, self.lines_end = os.pipe()
        self._frames, self.frames_end = os.pipe()
        self._partial = {self._lines: b"", self._frames: b""}
        for reading_end in self._partial:
            os.set_blocking(reading_end, False)
            selector.register(reading_end, selectors.EVENT_READ, self)

    def hand_over(self) -> None:
        """Close our copies of the writing ends, once the process has its own."""
        os.close(self.lines_end)
        os.close(self.frames_end)

    def drain(self) -> Iterator[str]:
        """Yield every record and line that is complete by now."""
        yield from self._take_frames(self._read(self._frames))
        *lines, self._partial[self._lines] = self._read(self._lines).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")

    def close(self) -> Iterator[str]:
        """Yield what is left, the last line without its end included, and close both pipes."""
        yield from self.drain()
        for reading_end, rest in self._partial.items():
            if reading_end in self._selector.get_map():
                self._selector.unregister(reading_end)
            os.close(reading_end)
            if rest:
                yield rest.decode(errors="replace")

    def _read(self, reading_end: int) -> bytes:
        """Read all that is there, after what was left of the last time."""
        data = self._partial[reading_end]
        try:
            while part := os.read(reading_end, _PIPE_BYTES):
                data += part
        except BlockingIOError:
            return data
        # The end of the pipe is always ready to be read: nobody wants to hear of it again.
        if reading_end in self._selector.get_map():
            self._selector.unregister(reading_end)
        return data

    def _take_frames(self, data: bytes) -> Iterator[str]:
        while len(data) >= _FRAME.size:
            _, length, _ = _FRAME.unpack_from(data)
            end = _FRAME.size + length
            if len(data) < end:
                break
            yield data[_FRAME.size : end].decode(errors="replace").rstrip("\n")
            data = data[end:]
        self._partial[self._frames] = data
