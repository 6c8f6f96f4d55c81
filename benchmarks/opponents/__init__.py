"""One file a library: what is done with it, in full. Each function gives the seconds that it took."""
