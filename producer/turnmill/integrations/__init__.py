"""turnmill inside agent frameworks: one module each, imported only where that framework is used."""
