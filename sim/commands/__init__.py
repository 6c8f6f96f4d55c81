"""The commands of `evenhand sim`, one module each."""
