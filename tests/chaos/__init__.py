"""Kills, freezes and lost servers, with the guarantee checked after each."""
