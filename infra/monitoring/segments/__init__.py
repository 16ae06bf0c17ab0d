"""The pieces that the dashboards are made of, one file each."""
