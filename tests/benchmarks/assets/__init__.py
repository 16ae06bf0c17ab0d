"""What is put into the functions whose throughput is compared: one module each, as `handler`."""
