"""See the service: what is measured, how it is drawn, and what rings."""
