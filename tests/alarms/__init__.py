"""Every alarm of the template, driven to ALARM and back by what a running stack does."""
