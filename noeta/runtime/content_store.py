"""The public face of content: bodies by their hash, immutable, stored once."""

from __future__ import annotations

from noeta.core.store import ContentRef, Store


class ContentStore:
    """Bodies of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def put(self, body: bytes, *, media_type: str = "application/octet-stream") -> ContentRef:
        """Keep a body; the same bytes are kept once."""
        return self.store.put_content(body, media_type)

    def get(self, ref: ContentRef) -> bytes:
        """The body; looks at the hash alone.

        Raises:
            ContentNotFound.
        """
        return self.store.get_content(ref.hash)
