"""What one module promises, without a server."""
