"""The scenarios of docs/cache.md, run with other caches: what they do is measured, not asserted."""
