"""What goes wrong with a simulated cluster, by script or by chance."""
