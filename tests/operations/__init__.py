"""The runbooks, rehearsed: each incident provoked, each command and query followed."""
