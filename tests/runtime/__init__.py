"""Functions under the genuine Lambda runtime client."""
