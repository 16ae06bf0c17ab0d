"""Every snippet of the documentation runs."""
