"""What is put into the functions of a chaos run: a folder that Lambda would unpack."""
