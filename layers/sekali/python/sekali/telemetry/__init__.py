"""Say what happened (`events`), hand it on (`hooks`), and translate it for each observer."""
