"""The commands below `evenhand sim`, one a module: each a function whose parameters are its options."""
